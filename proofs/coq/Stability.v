(* By how much a statistic moves where one unit changes several rows.

   A table of stability (r, a): where one privacy unit changes, i rows are replaced and j are added
   or removed with i / r + j / a <= 1.

   What is proved: what moves by DR for a replaced row and by DA for one added or removed moves by
   at most max(r DR, a DA) for a unit, in any distance; so does a sum of a row map, in L1 and in L2,
   and a score.  A unit is at most r, or max(2 r, a), steps of one row: what is DP for a step, at
   that part of eps, is eps-DP for a unit.

   PROOFS.md: "Stability", "Units of many rows".
   Modules: skdp/core/table.py (Stability), skdp/core/query.py (moved_by),
   skdp/core/privacy_filter.py (per_step). *)
Require Import Reals Lra Lia ZArith List Permutation Psatz.
From Skdp Require Import Sums Privacy KNorm.
Open Scope R_scope.

(* Tables that i replaced rows and j added or removed ones lead from one to the other. *)
Inductive apart {T} (stepR stepA : T -> T -> Prop) : Z -> Z -> T -> T -> Prop :=
| here x : apart stepR stepA 0 0 x x
| replaced i j x y z :
    stepR x y -> apart stepR stepA i j y z -> apart stepR stepA (i + 1) j x z
| entered i j x y z :
    stepA x y -> apart stepR stepA i j y z -> apart stepR stepA i (j + 1) x z.
(* i / r + j / a <= 1, where 0 allows none of a kind. *)
Definition of_unit (r a i j : Z) := (i * a + j * r <= r * a)%Z /\
  (r = 0 -> i = 0 /\ j <= a)%Z /\ (a = 0 -> j = 0 /\ i <= r)%Z.

Section Stability.
Variables (T : Type) (stepR stepA : T -> T -> Prop) (dist : T -> T -> R).
Hypothesis dist0 : forall x, dist x x = 0.
Hypothesis triangle : forall x y z, dist x z <= dist x y + dist y z.
Variables (DR DA : R).
Hypothesis HR : forall x y, stepR x y -> dist x y <= DR.
Hypothesis HA : forall x y, stepA x y -> dist x y <= DA.
Hypothesis PR : 0 <= DR. Hypothesis PA : 0 <= DA.
Lemma apart_dist i j x y : apart stepR stepA i j x y ->
  (0 <= i)%Z /\ (0 <= j)%Z /\ dist x y <= IZR i * DR + IZR j * DA.
Proof.
  induction 1 as [x|i j x y z S A IH|i j x y z S A IH].
  - rewrite dist0; repeat split; try lia. lra.
  - destruct IH as (I & J & D). pose proof (HR _ _ S). pose proof (triangle x y z).
    rewrite plus_IZR. repeat split; try lia. lra.
  - destruct IH as (I & J & D). pose proof (HA _ _ S). pose proof (triangle x y z).
    rewrite plus_IZR. repeat split; try lia. lra.
Qed.
Theorem moved_by r a i j x y : apart stepR stepA i j x y -> (0 <= r)%Z -> (0 <= a)%Z ->
  of_unit r a i j -> dist x y <= Rmax (IZR r * DR) (IZR a * DA).
Proof.
  intros A R0 A0 (L & r0 & a0). destruct (apart_dist _ _ _ _ A) as (I & J & D).
  set (m := Rmax (IZR r * DR) (IZR a * DA)).
  assert (IZR r * DR <= m /\ IZR a * DA <= m) as [X Y]
    by (split; [apply Rmax_l|apply Rmax_r]).
  apply IZR_le in I, J, R0, A0, L. rewrite plus_IZR, !mult_IZR in L.
  destruct (Z.eq_dec r 0) as [e|nr].
  { destruct (r0 e) as [-> Ja]. apply IZR_le in Ja. nra. }
  destruct (Z.eq_dec a 0) as [e|na].
  { destruct (a0 e) as [-> Ir]. apply IZR_le in Ir. nra. }
  assert (Pr : 0 < IZR r) by (destruct R0 as [|e]; auto; apply eq_IZR in e; lia).
  assert (Pa : 0 < IZR a) by (destruct A0 as [|e]; auto; apply eq_IZR in e; lia).
  eapply Rle_trans; [exact D|].
  apply Rmult_le_reg_l with (IZR r * IZR a); [apply Rmult_lt_0_compat; auto|].
  assert (0 <= m) by (eapply Rle_trans; [|exact X]; apply Rmult_le_pos; lra).
  assert (U : IZR i * IZR a * (IZR r * DR) <= IZR i * IZR a * m)
    by (apply Rmult_le_compat_l; auto; apply Rmult_le_pos; auto).
  assert (V : IZR j * IZR r * (IZR a * DA) <= IZR j * IZR r * m)
    by (apply Rmult_le_compat_l; auto; apply Rmult_le_pos; auto).
  assert (W : (IZR i * IZR a + IZR j * IZR r) * m <= IZR r * IZR a * m)
    by (apply Rmult_le_compat_r; auto).
  lra.
Qed.
End Stability.

(* --- neighbours of a session, and sums of row maps -------------------------------------------- *)

Section Neighbours.
Variable Row : Type.
Variables r a : Z.
Hypothesis r0 : (0 <= r)%Z. Hypothesis a0 : (0 <= a)%Z.
Definition near (T U : list Row) := exists i j,
  apart (replace_one Row) (add_or_remove Row) i j T U /\ of_unit r a i j.

(* A norm: of the vector's first entries, not negative, even, 0 at 0, with a triangle inequality. *)
Section Norm.
Variable size : vec -> R.
Hypothesis size_ext : forall u v, (forall j, u j = v j) -> size u = size v.
Hypothesis size_0 : size (fun _ => 0%Z) = 0.
Hypothesis size_even : forall v, size (fun j => (- v j)%Z) = size v.
Hypothesis size_triangle : forall u v, size (fun j => (u j + v j)%Z) <= size u + size v.
Variables (phi : Row -> vec) (DR DA : R).
Hypothesis HR : forall x y, size (minus (phi x) (phi y)) <= DR.
Hypothesis HA : forall x, size (phi x) <= DA.
Hypothesis PR : 0 <= DR. Hypothesis PA : 0 <= DA.
Theorem total_moves T U : near T U ->
  size (minus (total Row phi T) (total Row phi U)) <= Rmax (IZR r * DR) (IZR a * DA).
Proof.
  intros (i & j & A & L).
  apply (moved_by (list Row) (replace_one Row) (add_or_remove Row)
          (fun T U => size (minus (total Row phi T) (total Row phi U)))) with i j; auto.
  - intros x. rewrite <- size_0. apply size_ext. intros; unfold minus; lia.
  - intros x y z. eapply Rle_trans; [|apply size_triangle]. right. apply size_ext.
    intros; unfold minus; lia.
  - intros x y S. destruct (moved_R Row phi x y S) as (b & c & E).
    rewrite (size_ext _ (minus (phi b) (phi c))); auto.
  - intros x y S. destruct (moved_A Row phi x y S) as (b & [E|E]);
    rewrite (size_ext _ _ E); [|rewrite size_even]; auto.
Qed.
End Norm.

Theorem total_moves_L1 d (phi : Row -> vec) DR DA : (0 <= DR)%Z -> (0 <= DA)%Z ->
  (forall x y, (l1 d (minus (phi x) (phi y)) <= DR)%Z) -> (forall x, (l1 d (phi x) <= DA)%Z) ->
  forall T U, near T U ->
  (l1 d (minus (total Row phi T) (total Row phi U)) <= Z.max (r * DR) (a * DA))%Z.
Proof.
  intros PR PA HR HA T U N. apply le_IZR.
  assert (E : IZR (Z.max (r * DR) (a * DA)) = Rmax (IZR r * IZR DR) (IZR a * IZR DA)).
  { rewrite <- !mult_IZR. destruct (Z.max_spec (r * DR) (a * DA)) as [[L ->]|[L ->]].
    - rewrite Rmax_right; auto. apply IZR_le; lia.
    - rewrite Rmax_left; auto. apply IZR_le; lia. }
  rewrite E. apply (total_moves (fun v => IZR (l1 d v))); auto; unfold l1.
  - intros u v H. f_equal. apply over_ext. intros; rewrite H; auto.
  - rewrite (over_ext d _ (fun _ => 0%Z)), over_const by auto. f_equal; lia.
  - intros v. f_equal. apply over_ext. intros; lia.
  - intros u v. rewrite <- plus_IZR, <- over_plus. apply IZR_le, over_le. intros; lia.
  - intros. apply IZR_le, HR.
  - intros. apply IZR_le, HA.
  - apply IZR_le; auto.
  - apply IZR_le; auto.
Qed.
(* The largest changes of parts, added up: what noise of cubes needs. *)
Theorem total_moves_parts part d (phi : Row -> vec) DR DA : (0 <= DR)%Z -> (0 <= DA)%Z ->
  (forall x y, (largestsZ part d (minus (phi x) (phi y)) <= DR)%Z) ->
  (forall x, (largestsZ part d (phi x) <= DA)%Z) -> forall T U, near T U ->
  (largestsZ part d (minus (total Row phi T) (total Row phi U)) <= Z.max (r * DR) (a * DA))%Z.
Proof.
  intros PR PA HR HA T U N. apply le_IZR.
  assert (E : IZR (Z.max (r * DR) (a * DA)) = Rmax (IZR r * IZR DR) (IZR a * IZR DA)).
  { rewrite <- !mult_IZR. destruct (Z.max_spec (r * DR) (a * DA)) as [[L ->]|[L ->]].
    - rewrite Rmax_right; auto. apply IZR_le; lia.
    - rewrite Rmax_left; auto. apply IZR_le; lia. }
  rewrite E. apply (total_moves (fun v => IZR (largestsZ part d v))); auto.
  - intros u v H. rewrite !largestsZ_real. apply largests_ext. intros j _. unfold real.
    rewrite H. reflexivity.
  - rewrite largestsZ_real. apply Rle_antisym; [|apply largests_0].
    eapply Rle_trans; [apply largests_le_parts|]. unfold real. rewrite Rabs_R0, !overR_const. right; ring.
  - intros v. rewrite !largestsZ_real. apply largests_even.
    intros; unfold real; apply opp_IZR.
  - intros u v. rewrite !largestsZ_real. eapply Rle_trans; [|apply largests_triangle].
    right. apply largests_ext. intros; unfold real; apply plus_IZR.
  - intros. apply IZR_le, HR.
  - intros. apply IZR_le, HA.
  - apply IZR_le; auto.
  - apply IZR_le; auto.
Qed.
(* Bounds on squares: what an Independent sensitivity states. *)
Theorem total_moves_squares d (phi : Row -> vec) QR QA : (0 <= QR)%Z -> (0 <= QA)%Z ->
  (forall x y, (sq d (minus (phi x) (phi y)) <= QR)%Z) -> (forall x, (sq d (phi x) <= QA)%Z) ->
  forall T U, near T U ->
  (sq d (minus (total Row phi T) (total Row phi U)) <= Z.max (r * r * QR) (a * a * QA))%Z.
Proof.
  intros PR PA HR HA T U N. apply le_IZR. rewrite <- norm2_squares.
  assert (B : forall v Q, (0 <= Q)%Z -> (sq d v <= Q)%Z -> norm2 d v <= sqrt (IZR Q)).
  { intros v Q P H. unfold norm2, norm. apply sqrt_le_1_alt.
    rewrite <- norm_sq. fold (norm2 d v). rewrite norm2_squares. apply IZR_le; auto. }
  assert (M : norm2 d (minus (total Row phi T) (total Row phi U))
              <= Rmax (IZR r * sqrt (IZR QR)) (IZR a * sqrt (IZR QA))).
  { apply (total_moves (norm2 d)); auto; unfold norm2.
    - intros u v H. apply norm_ext. intros; unfold real; rewrite H; auto.
    - unfold norm, squares. rewrite (overR_ext d _ (fun _ => 0)).
      + rewrite overR_const, Rmult_0_r. apply sqrt_0.
      + intros; unfold real; ring.
    - intros v. unfold norm, squares. f_equal. apply overR_ext. intros; unfold real.
      rewrite opp_IZR; ring.
    - intros u v. eapply Rle_trans; [|apply norm_triangle]. right. apply norm_ext.
      intros; unfold real; apply plus_IZR.
    - apply sqrt_pos.
    - apply sqrt_pos. }
  pose proof (norm_0 d (real (minus (total Row phi T) (total Row phi U)))) as P.
  fold (norm2 d (minus (total Row phi T) (total Row phi U))) in P.
  set (n := norm2 d _) in *.
  assert (S : forall k Q, (0 <= k)%Z -> (0 <= Q)%Z -> n <= IZR k * sqrt (IZR Q) ->
              n * n <= IZR (k * k * Q)).
  { intros k Q K0 Q0 L. rewrite !mult_IZR.
    replace (IZR k * IZR k * IZR Q)
      with ((IZR k * sqrt (IZR Q)) * (IZR k * sqrt (IZR Q))).
    - apply Rmult_le_compat; auto.
    - pose proof (sqrt_sqrt (IZR Q) (IZR_le _ _ Q0)). nra. }
  unfold Rmax in M. destruct (Rle_dec _ _).
  - eapply Rle_trans; [apply (S a QA); auto|]. apply IZR_le; lia.
  - eapply Rle_trans; [apply (S r QR); auto|]. apply IZR_le; lia.
Qed.
Theorem total_moves_L2 d (phi : Row -> vec) DR DA : (0 <= DR)%Z -> (0 <= DA)%Z ->
  (forall x y, (sq d (minus (phi x) (phi y)) <= DR * DR)%Z) ->
  (forall x, (sq d (phi x) <= DA * DA)%Z) ->
  let D := Z.max (r * DR) (a * DA) in
  forall T U, near T U -> (sq d (minus (total Row phi T) (total Row phi U)) <= D * D)%Z.
Proof.
  intros PR PA HR HA D T U N. eapply Z.le_trans.
  - apply (total_moves_squares d phi (DR * DR) (DA * DA)); auto; nia.
  - unfold D. assert (0 <= r * DR /\ 0 <= a * DA)%Z by nia.
    destruct (Z.max_spec (r * DR) (a * DA)) as [[L ->]|[L ->]];
    apply Z.max_lub; nia.
Qed.

(* Scores of a choice: what one step may do to a score, and what a unit may. *)
Theorem score_moves (score : list Row -> Z) sR sA : (0 <= sR)%Z -> (0 <= sA)%Z ->
  (forall T U, replace_one Row T U -> (Z.abs (score T - score U) <= sR)%Z) ->
  (forall T U, add_or_remove Row T U -> (Z.abs (score T - score U) <= sA)%Z) ->
  forall T U, near T U -> (Z.abs (score U - score T) <= Z.max (r * sR) (a * sA))%Z.
Proof.
  intros PR PA HR HA T U (i & j & A & L). apply le_IZR.
  assert (E : IZR (Z.max (r * sR) (a * sA)) = Rmax (IZR r * IZR sR) (IZR a * IZR sA)).
  { rewrite <- !mult_IZR. destruct (Z.max_spec (r * sR) (a * sA)) as [[M ->]|[M ->]].
    - rewrite Rmax_right; auto. apply IZR_le; lia.
    - rewrite Rmax_left; auto. apply IZR_le; lia. }
  rewrite E.
  apply (moved_by (list Row) (replace_one Row) (add_or_remove Row)
          (fun T U => IZR (Z.abs (score U - score T)))) with i j; auto.
  - intros x. rewrite Z.sub_diag. reflexivity.
  - intros x y z. rewrite <- plus_IZR. apply IZR_le. lia.
  - intros x y S. apply IZR_le. specialize (HR x y S). lia.
  - intros x y S. apply IZR_le. specialize (HA x y S). lia.
  - apply IZR_le; auto.
  - apply IZR_le; auto.
Qed.
(* --- everything else: so many steps of one relation ------------------------------------------- *)

(* Stability.relation and Stability.steps: a step is a replaced row where rows are only replaced;
   otherwise it is a row added or removed, and a replaced row is two of them. *)
Definition step := if (a =? 0)%Z then replace_one Row else add_or_remove Row.
Definition steps_of_unit := if (a =? 0)%Z then r else Z.max (2 * r) a.
Lemma steps_app near j k (T U V : list Row) : steps (list Row) near j T U ->
  steps (list Row) near k U V -> steps (list Row) near (j + k) T V.
Proof. induction 1; simpl; auto. intros. eapply further; eauto. Qed.
Lemma replaced_is_two T U : replace_one Row T U -> steps (list Row) (add_or_remove Row) 2 T U.
Proof.
  intros (x & y & V & A & B). apply further with V; [right; exists x; auto|].
  apply further with U; [left; exists y; auto|apply same].
Qed.
Lemma apart_steps_R i j T U : apart (replace_one Row) (add_or_remove Row) i j T U ->
  (0 <= i /\ 0 <= j)%Z /\ (j = 0%Z -> steps (list Row) (replace_one Row) (Z.to_nat i) T U).
Proof.
  induction 1 as [x|i j x y z S A (P & IH)|i j x y z S A (P & IH)].
  - split; [lia|]. intros; apply same.
  - split; [lia|]. intros E. replace (Z.to_nat (i + 1)) with (Datatypes.S (Z.to_nat i)) by lia.
    eapply further; eauto.
  - split; [lia|]. intros; lia.
Qed.
Lemma apart_steps_A i j T U : apart (replace_one Row) (add_or_remove Row) i j T U ->
  (0 <= i /\ 0 <= j)%Z /\ steps (list Row) (add_or_remove Row) (Z.to_nat (2 * i + j)) T U.
Proof.
  induction 1 as [x|i j x y z S A (P & IH)|i j x y z S A (P & IH)].
  - split; [lia|]. apply same.
  - split; [lia|]. replace (Z.to_nat (2 * (i + 1) + j)) with (2 + Z.to_nat (2 * i + j))%nat by lia.
    eapply steps_app; [apply replaced_is_two|]; eauto.
  - split; [lia|]. replace (Z.to_nat (2 * i + (j + 1)))
      with (Datatypes.S (Z.to_nat (2 * i + j))) by lia.
    eapply further; eauto.
Qed.
(* Neighbours are at most that many steps apart. *)
Theorem unit_in_steps T U : near T U ->
  exists k, (Z.of_nat k <= steps_of_unit)%Z /\ steps (list Row) step k T U.
Proof.
  intros (i & j & A & L & C & D). unfold step, steps_of_unit. destruct (Z.eqb_spec a 0) as [E|E].
  - destruct (D E) as [-> I]. destruct (apart_steps_R _ _ _ _ A) as [P S].
    exists (Z.to_nat i). split; [lia|auto].
  - destruct (apart_steps_A _ _ _ _ A) as [P S]. exists (Z.to_nat (2 * i + j)). split; [|auto].
    rewrite Z2Nat.id by lia. destruct (Z.eq_dec r 0) as [F|F]; [destruct (C F); lia|].
    set (m := Z.max (2 * r) a). assert (2 * r <= m /\ a <= m)%Z by (unfold m; lia). nia.
Qed.
(* What is DP for a step at a k-th part of eps is eps-DP for a unit. *)
Theorem unit_dp {O} eps (M : list Row -> O -> R) : 0 <= eps -> (0 < steps_of_unit)%Z ->
  (forall T o, 0 <= M T o) -> dp (list Row) step (eps / IZR steps_of_unit) M ->
  dp (list Row) near eps M.
Proof.
  intros E K Pos H T U N o. split; auto. destruct (unit_in_steps T U N) as (k & B & S).
  assert (P : 0 < IZR steps_of_unit) by (apply IZR_lt; auto).
  destruct k as [|k].
  - inversion S; subst. pose proof (exp_ge_1 eps E). pose proof (Pos U o). nra.
  - destruct (group_dp _ _ _ _ _ _ _ H S o) as [_ G]. eapply Rle_trans; [exact G|].
    apply Rmult_le_compat_r; auto. apply exp_le. apply IZR_le in B. rewrite <- INR_IZR_INZ in B.
    apply Rmult_le_reg_r with (IZR steps_of_unit); auto. unfold Rdiv.
    rewrite <- Rmult_assoc, Rmult_assoc, Rinv_l, Rmult_1_r by lra.
    rewrite Rmult_comm. apply Rmult_le_compat_l; auto.
Qed.
End Neighbours.
