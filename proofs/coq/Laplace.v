(* Discrete Laplace noise.

   What is proved: the probabilities sum to 1; the rule of skdp's sampler (truncate a scaled Laplace
   deviate, draw again where a negative one became 0) yields exactly them; a vector of d independent
   entries sums to 1, too; an integer statistic of L1 sensitivity Delta with noise of scale
   Delta / eps is eps-DP.

   PROOFS.md: "Noise on integers".  Modules: skdp/core/noise/additive.py (discrete_laplace),
   skdp/core/mechanisms.py (Independent.noised). *)
Require Import Reals Lra Lia ZArith List Psatz.
From Skdp Require Import Sums Privacy.
Open Scope R_scope.

Definition lap (s : R) (k : Z) : R :=
  (1 - exp (-/ s)) / (1 + exp (-/ s)) * exp (- IZR (Z.abs k) / s).
Lemma q_range s : 0 < s -> 0 < exp (-/ s) < 1.
Proof.
  intros H. split; [apply exp_pos|]. rewrite <- exp_0. apply exp_increasing.
  pose proof (Rinv_0_lt_compat s H). lra.
Qed.
Lemma lap_pos s k : 0 < s -> 0 < lap s k.
Proof.
  intros H. unfold lap. pose proof (q_range s H). apply Rmult_lt_0_compat; [|apply exp_pos].
  apply Rdiv_lt_0_compat; lra.
Qed.
Lemma lap_ratio s a b : 0 < s -> lap s a <= exp (IZR (Z.abs (a - b)) / s) * lap s b.
Proof.
  intros H. unfold lap. pose proof (q_range s H). set (c := (1 - _) / _).
  assert (0 < c) by (unfold c; apply Rdiv_lt_0_compat; lra).
  replace (exp (IZR (Z.abs (a - b)) / s) * (c * exp (- IZR (Z.abs b) / s)))
    with (c * (exp (IZR (Z.abs (a - b)) / s) * exp (- IZR (Z.abs b) / s))) by ring.
  rewrite <- exp_plus. apply Rmult_le_compat_l; [lra|]. apply exp_le.
  unfold Rdiv. rewrite <- Rmult_plus_distr_r. apply Rmult_le_compat_r.
  - left; apply Rinv_0_lt_compat; auto.
  - rewrite <- !opp_IZR, <- plus_IZR. apply IZR_le. lia.
Qed.

(* --- its mass is 1: within n of 0 it is 1 - 2 q^(n+1) / (1 + q) ------------------------------- *)

(* The sum of g over the integers from -n to n. *)
Fixpoint around (n : nat) (g : Z -> R) : R := match n with
  | O => g 0%Z
  | S m => around m g + g (Z.of_nat n) + g (- Z.of_nat n)%Z end.
Definition mass s n := around n (lap s).
Lemma exp_nat s n : 0 < s -> exp (- IZR (Z.of_nat n) / s) = exp (-/ s) ^ n.
Proof.
  intros H. induction n; [simpl; replace (-0 / s) with 0; [apply exp_0|field; lra]|].
  rewrite <- tech_pow_Rmult, <- IHn, <- exp_plus. f_equal.
  rewrite Nat2Z.inj_succ, succ_IZR. field. lra.
Qed.
Theorem lap_mass s n : 0 < s -> mass s n = 1 - 2 * exp (-/ s) ^ (S n) / (1 + exp (-/ s)).
Proof.
  intros H. pose proof (q_range s H). unfold mass. induction n.
  - unfold around, lap. simpl Z.abs. replace (- 0 / s) with 0 by (field; lra).
    rewrite exp_0, pow_1. field. lra.
  - cbn [around]. rewrite IHn. unfold lap.
    replace (Z.abs (- Z.of_nat (S n)))%Z with (Z.of_nat (S n)) by lia.
    replace (Z.abs (Z.of_nat (S n))) with (Z.of_nat (S n)) by lia.
    rewrite exp_nat by auto. rewrite <- (tech_pow_Rmult _ (S n)). field. lra.
Qed.
Theorem lap_mass_1 s : 0 < s -> Un_cv (mass s) 1.
Proof.
  intros H e E. pose proof (q_range s H) as Q. set (q := exp (-/ s)) in *.
  destruct (pow_lt_1_zero q ltac:(rewrite Rabs_right; lra) (e / 2) ltac:(lra)) as [N HN].
  exists N. intros n L. unfold R_dist. rewrite lap_mass by auto. fold q.
  specialize (HN (S n) ltac:(lia)). rewrite Rabs_right in HN by (apply Rle_ge, pow_le; lra).
  assert (0 < q ^ S n) by (apply pow_lt; lra).
  replace (1 - 2 * q ^ S n / (1 + q) - 1) with (- (2 * q ^ S n * / (1 + q))) by (field; lra).
  rewrite Rabs_Ropp, Rabs_right.
  - assert (I : / (1 + q) < 1).
    { apply Rmult_lt_reg_l with (r := 1 + q); [lra|]. rewrite Rinv_r; lra. }
    assert (0 < / (1 + q)) by (apply Rinv_0_lt_compat; lra).
    assert (2 * q ^ S n * / (1 + q) < 2 * q ^ S n * 1) by (apply Rmult_lt_compat_l; lra). lra.
  - apply Rle_ge. apply Rmult_le_pos; [lra|]. left; apply Rinv_0_lt_compat; lra.
Qed.
Lemma lap_mass_le s n : 0 < s -> 0 <= mass s n <= 1.
Proof.
  intros H. split.
  - unfold mass. induction n; cbn [around].
    + left; apply lap_pos; auto.
    + pose proof (lap_pos s (Z.of_nat (S n)) H). pose proof (lap_pos s (- Z.of_nat (S n)) H). lra.
  - rewrite lap_mass by auto. pose proof (q_range s H).
    assert (0 < exp (-/ s) ^ S n) by (apply pow_lt; lra).
    assert (0 < 2 * exp (-/ s) ^ S n / (1 + exp (-/ s))) by (apply Rdiv_lt_0_compat; lra). lra.
Qed.

(* The sampler's rule: K = trunc(s X) of a Laplace deviate X, drawn again when X < 0 and K = 0.
   floor(s |X|) = k has probability q^k (1 - q); a sign has 1/2.  What is kept is `lap`. *)
Definition drawn (s : R) (negative : bool) (k : nat) : R :=
  exp (-/ s) ^ k * (1 - exp (-/ s)) / 2.
Definition kept (s : R) (z : Z) : R := drawn s (z <? 0)%Z (Z.abs_nat z) / (1 - drawn s true 0).
Theorem kept_is_lap s z : 0 < s -> kept s z = lap s z.
Proof.
  intros H. pose proof (q_range s H). unfold kept, drawn, lap.
  assert (A : Z.abs z = Z.of_nat (Z.abs_nat z)) by lia.
  rewrite A, exp_nat, pow_O by auto. field. lra.
Qed.

(* --- vectors ---------------------------------------------------------------------------------- *)

(* The probability of the released vector o where the exact statistic is f. *)
Fixpoint noise (s : R) (d : nat) (f o : vec) : R :=
  match d with O => 1 | S k => noise s k f o * lap s (o k - f k) end.
Lemma noise_pos s d f o : 0 < s -> 0 < noise s d f o.
Proof.
  intros H. induction d; simpl; [lra|]. apply Rmult_lt_0_compat; auto. apply lap_pos; auto.
Qed.
Theorem noise_ratio s d f g o : 0 < s ->
  noise s d f o <= exp (IZR (l1 d (minus f g)) / s) * noise s d g o.
Proof.
  intros H. induction d as [|d IH]; unfold l1 in *; simpl.
  - replace (0 / s) with 0 by (field; lra). rewrite exp_0. lra.
  - rewrite plus_IZR. rewrite Rdiv_plus_distr, exp_plus.
    pose proof (lap_ratio s (o d - f d) (o d - g d) H) as L.
    replace (Z.abs (o d - f d - (o d - g d)))%Z with (Z.abs (minus f g d)) in L
      by (unfold minus; lia).
    pose proof (noise_pos s d f o H). pose proof (lap_pos s (o d - f d) H).
    set (A := exp _) in *. set (B := exp (IZR (Z.abs (minus f g d)) / s)) in *.
    replace (A * B * (noise s d g o * lap s (o d - g d)))
      with ((A * noise s d g o) * (B * lap s (o d - g d))) by ring.
    apply Rmult_le_compat; auto; lra.
Qed.
(* Integer statistic of L1 sensitivity Delta, scale Delta / eps: eps-DP. *)
Theorem laplace_dp {T} (near : T -> T -> Prop) (f : T -> vec) d (Delta : Z) eps :
  (0 < Delta)%Z -> 0 < eps ->
  (forall x y, near x y -> (l1 d (minus (f x) (f y)) <= Delta)%Z) ->
  dp T near eps (fun x o => noise (IZR Delta / eps) d (f x) o).
Proof.
  intros HD E S x y N o. assert (0 < IZR Delta) by (apply IZR_lt; auto).
  assert (P : 0 < IZR Delta / eps) by (apply Rdiv_lt_0_compat; auto).
  split; [left; apply noise_pos; auto|].
  eapply Rle_trans; [apply noise_ratio with (g := f y); auto|].
  apply Rmult_le_compat_r; [left; apply noise_pos; auto|]. apply exp_le.
  apply Rmult_le_reg_r with (r := IZR Delta / eps); auto.
  replace (IZR (l1 d (minus (f x) (f y))) / (IZR Delta / eps) * (IZR Delta / eps))
    with (IZR (l1 d (minus (f x) (f y)))) by (field; lra).
  replace (eps * (IZR Delta / eps)) with (IZR Delta) by (field; lra). apply IZR_le; auto.
Qed.

(* --- sums over boxes of integer vectors ------------------------------------------------------- *)

Definition putZ (k : nat) (v : Z) (c : vec) : vec := fun j => if Nat.eqb j k then v else c j.
(* The sum of F over the vectors whose first d entries are within n of those of c. *)
Fixpoint box (n d : nat) (F : vec -> R) (c : vec) : R := match d with
  | O => F c
  | S k => around n (fun m => box n k F (putZ k (c k + m)%Z c)) end.
Lemma around_le n f g : (forall m, f m <= g m) -> around n f <= around n g.
Proof.
  intros H. induction n; cbn [around]; [apply H|]. pose proof (H (Z.of_nat (S n))).
  pose proof (H (- Z.of_nat (S n))%Z). lra.
Qed.
Lemma around_ext n f g : (forall m, f m = g m) -> around n f = around n g.
Proof. intros H. apply Rle_antisym; apply around_le; intros; rewrite H; lra. Qed.
Lemma around_scale n c f : around n (fun m => f m * c) = around n f * c.
Proof. induction n; cbn [around]; [auto|]. rewrite IHn. ring. Qed.
Lemma box_le n d F G c : (forall o, F o <= G o) -> box n d F c <= box n d G c.
Proof.
  intros H. revert c. induction d; intros c; cbn [box]; [apply H|].
  apply around_le. intros. apply IHd.
Qed.
Lemma box_scale n d F a c : box n d (fun o => F o * a) c = box n d F c * a.
Proof.
  revert c. induction d; intros c; cbn [box]; [auto|]. rewrite <- around_scale.
  apply around_ext. intros. apply IHd.
Qed.
(* What depends on an entry that the box does not move is a factor. *)
Lemma box_factor n d j (G : vec -> R) (H : Z -> R) c : (d <= j)%nat ->
  box n d (fun o => G o * H (o j)) c = box n d G c * H (c j).
Proof.
  revert c. induction d; intros c L; cbn [box]; auto. rewrite <- around_scale.
  apply around_ext. intros. rewrite IHd by lia. unfold putZ at 2.
  replace (Nat.eqb j d) with false by (symmetry; apply Nat.eqb_neq; lia). auto.
Qed.
(* Independent entries: the mass of a box around the statistic is the product of the entries'. *)
Theorem noise_mass s n d f : 0 < s -> box n d (noise s d f) f = mass s n ^ d.
Proof.
  intros Hs. enough (H : forall c, (forall j, (j < d)%nat -> c j = f j) ->
                         box n d (noise s d f) c = mass s n ^ d) by (apply H; auto).
  induction d as [|k IH]; intros c E; [reflexivity|]. cbn [box noise].
  rewrite <- tech_pow_Rmult. unfold mass at 1. rewrite <- around_scale.
  apply around_ext. intros m.
  rewrite (box_factor n k k (noise s k f) (fun v => lap s (v - f k))) by lia.
  rewrite IH, Rmult_comm.
  - unfold putZ. rewrite Nat.eqb_refl, E by lia. f_equal. f_equal. lia.
  - intros j L. unfold putZ. replace (Nat.eqb j k) with false; [apply E; lia|].
    symmetry. apply Nat.eqb_neq; lia.
Qed.
Theorem noise_mass_1 s d f : 0 < s -> Un_cv (fun n => box n d (noise s d f) f) 1.
Proof.
  intros Hs. enough (H : Un_cv (fun n => mass s n ^ d) 1).
  { intros e E. destruct (H e E) as [N HN]. exists N. intros n L. rewrite noise_mass by auto.
    apply HN; auto. }
  induction d as [|k IH]; [exact (CV_const 1)|]. rewrite <- (Rmult_1_l 1).
  apply (CV_mult (mass s) (fun n => mass s n ^ k)); auto. apply lap_mass_1; auto.
Qed.
