(* The exponential mechanism over a list of candidates with multiplicities; lower scores are better.

   What is proved: it is a probability distribution; where scores change by amounts in an interval
   of length range, all log-ratios of probabilities are within eta * range; with scores that move
   by at most s and eta = eps / (2 s) a choice is eps-DP; m choices of which each takes eps / m are
   eps-DP together.

   PROOFS.md: "Exponential mechanism".  Modules: skdp/core/mechanisms.py (exponential_mechanism),
   skdp/core/noise/exponential.py. *)
Require Import Reals Lra Lia ZArith List Psatz.
From Skdp Require Import Privacy.
Import ListNotations.
Open Scope R_scope.

Section Choice.
Variables (C : Type) (cands : list C) (mult : C -> R) (eta : R).
Hypothesis mult_pos : forall c, 0 <= mult c.
Hypothesis some : exists c, In c cands /\ 0 < mult c.
Hypothesis eta_pos : 0 <= eta.
Definition weight (s : C -> Z) (c : C) := mult c * exp (- (eta * IZR (s c))).
Definition whole s := sumR (weight s) cands.
Definition choose (s : C -> Z) (c : C) := weight s c / whole s.
Lemma weight_pos s c : 0 <= weight s c.
Proof.
  unfold weight. pose proof (mult_pos c). pose proof (exp_pos (- (eta * IZR (s c)))). nra.
Qed.
Lemma whole_pos s : 0 < whole s.
Proof.
  unfold whole. destruct some as (c & I & P).
  induction cands as [|a l IH]; simpl in *; [tauto|].
  assert (A : 0 <= sumR (weight s) l) by (apply sumR_pos; intros; apply weight_pos).
  pose proof (weight_pos s a) as B. destruct I as [->|I].
  - assert (0 < weight s c)
      by (unfold weight; pose proof (exp_pos (- (eta * IZR (s c)))); nra).
    unfold sumR in *; lra.
  - assert (0 < sumR (weight s) l) by (apply IH; eauto). unfold sumR in *; lra.
Qed.
(* Scores change by c(x) in [low, low + range]: every log-ratio of probabilities lies within
   eta * range ("bounded range"; with range = 2 s for |c| <= s). *)
Theorem choice_ratio s t low range c : (forall x, (low <= t x - s x <= low + range)%Z) ->
  choose s c <= exp (eta * IZR range) * choose t c.
Proof.
  intros H.
  assert (W : forall x, weight s x <= exp (eta * IZR (low + range)) * weight t x).
  { intros x. unfold weight. pose proof (mult_pos x).
    replace (exp (eta * IZR (low + range)) * (mult x * exp (- (eta * IZR (t x)))))
      with (mult x * (exp (eta * IZR (low + range)) * exp (- (eta * IZR (t x))))) by ring.
    rewrite <- exp_plus. apply Rmult_le_compat_l; auto. apply exp_le.
    assert (IZR (t x) - IZR (s x) <= IZR (low + range))
      by (rewrite <- minus_IZR; apply IZR_le; apply H).
    nra. }
  assert (V : exp (eta * IZR low) * whole t <= whole s).
  { unfold whole. rewrite <- sumR_scale. apply sumR_le. intros x _. unfold weight.
    pose proof (mult_pos x).
    replace (exp (eta * IZR low) * (mult x * exp (- (eta * IZR (t x)))))
      with (mult x * (exp (eta * IZR low) * exp (- (eta * IZR (t x))))) by ring.
    rewrite <- exp_plus. apply Rmult_le_compat_l; auto. apply exp_le.
    assert (IZR low <= IZR (t x) - IZR (s x)) by (rewrite <- minus_IZR; apply IZR_le; apply H).
    nra. }
  unfold choose. pose proof (whole_pos s). pose proof (whole_pos t). specialize (W c).
  rewrite plus_IZR, Rmult_plus_distr_l, exp_plus in W.
  pose proof (exp_pos (eta * IZR low)). pose proof (exp_pos (eta * IZR range)).
  pose proof (weight_pos t c). apply Rmult_le_reg_r with (r := whole s); auto.
  replace (weight s c / whole s * whole s) with (weight s c) by (field; lra).
  eapply Rle_trans; [exact W|].
  replace (exp (eta * IZR range) * (weight t c / whole t) * whole s)
    with (exp (eta * IZR range) * weight t c * (whole s / whole t)) by (field; lra).
  replace (exp (eta * IZR low) * exp (eta * IZR range) * weight t c)
    with (exp (eta * IZR range) * weight t c * exp (eta * IZR low)) by ring.
  apply Rmult_le_compat_l; [nra|]. apply Rmult_le_reg_r with (r := whole t); auto.
  replace (whole s / whole t * whole t) with (whole s) by (field; lra). exact V.
Qed.
Theorem choice_sums_to_1 s : sumR (choose s) cands = 1.
Proof.
  pose proof (whole_pos s). unfold choose.
  assert (E : forall l, sumR (fun c => weight s c / whole s) l = sumR (weight s) l / whole s).
  { induction l; simpl; [field; lra|]. unfold sumR in *. rewrite IHl. field. lra. }
  rewrite E. unfold whole in *. field. lra.
Qed.
End Choice.

Theorem choice_dp {T C} (near : T -> T -> Prop) (cands : list C) mult
  (score : T -> C -> Z) (s : Z) eps :
  (forall c, 0 <= mult c) -> (exists c, In c cands /\ 0 < mult c) -> (0 < s)%Z -> 0 < eps ->
  (forall x y, near x y -> forall c, (Z.abs (score y c - score x c) <= s)%Z) ->
  dp T near eps (fun x c => choose C cands mult (eps / (2 * IZR s)) (score x) c).
Proof.
  intros Hm Hs S E H x y N c. assert (0 < IZR s) by (apply IZR_lt; auto).
  assert (P : 0 < eps / (2 * IZR s)) by (apply Rdiv_lt_0_compat; lra).
  split.
  - unfold choose. apply Rmult_le_pos; [apply weight_pos; auto|].
    left. apply Rinv_0_lt_compat, whole_pos; auto.
  - replace (exp eps) with (exp (eps / (2 * IZR s) * IZR (2 * s))).
    + apply choice_ratio with (low := (- s)%Z); auto; [lra|]. intros z.
      specialize (H x y N z). lia.
    + f_equal. rewrite mult_IZR. field. lra.
Qed.

(* --- several choices of one answer ------------------------------------------------------------ *)

(* The rows of a score matrix: each is one choice, at the rate each / (2 s). *)
Record round (T : Type) :=
  { cands : list nat; multiplicity : nat -> R; score : T -> nat -> Z }.
Arguments cands {T}. Arguments multiplicity {T}. Arguments score {T}.
Definition choosable {T} (q : round T) :=
  (forall c, 0 <= multiplicity q c) /\ exists c, In c (cands q) /\ 0 < multiplicity q c.
Fixpoint choose_all {T} (each : R) (s : Z) (rounds : list (round T)) (x : T) (o : list nat) : R :=
  match rounds, o with
  | [], [] => 1
  | q :: more, c :: o' =>
      choose nat (cands q) (multiplicity q) (each / (2 * IZR s)) (score q x) c
      * choose_all each s more x o'
  | _, _ => 0 end.
Theorem choices_dp {T} (near : T -> T -> Prop) (s : Z) each (rounds : list (round T)) :
  (0 < s)%Z -> 0 < each -> (forall q, In q rounds -> choosable q) ->
  (forall q, In q rounds -> forall x y, near x y -> forall c,
     (Z.abs (score q y c - score q x c) <= s)%Z) ->
  dp T near (INR (length rounds) * each) (choose_all each s rounds).
Proof.
  intros S E Hc H x y N. induction rounds as [|q more IH]; intros o.
  - simpl. rewrite Rmult_0_l, exp_0. destruct o; simpl; lra.
  - destruct o as [|c o].
    + simpl choose_all. lra.
    + assert (I : dp T near each (fun x c => choose nat (cands q) (multiplicity q)
                                               (each / (2 * IZR s)) (score q x) c)).
      { destruct (Hc q (or_introl eq_refl)). apply choice_dp; auto. apply H; simpl; auto. }
      destruct (I x y N c) as [P1 P2].
      destruct (IH ltac:(intros; apply Hc; simpl; auto) ltac:(intros; eapply H; simpl; eauto) o)
        as [Q1 Q2].
      simpl choose_all. split; [apply Rmult_le_pos; auto|].
      change (length (q :: more)) with (Datatypes.S (length more)).
      rewrite S_INR, Rmult_plus_distr_r, Rmult_1_l, Rplus_comm, exp_plus.
      set (A := exp each) in *. set (B := exp (INR (length more) * each)) in *.
      set (m := choose _ _ _ _ (score q y) c) in *. set (w := choose_all _ _ _ y o) in *.
      replace (A * B * (m * w)) with ((A * m) * (B * w)) by ring. apply Rmult_le_compat; auto.
Qed.
