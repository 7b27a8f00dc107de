(* K-norm noise of the ball and of the cube, rounded to integers.

   The ideal noise is a point of d real coordinates with density proportional to exp(-|z| / s), |z|
   the Euclidean norm, or the largest coordinate.  It is added to an integer vector f and the sum is
   rounded; so the integer vector o is released with a probability proportional to the integral of
   the density over the cube of side 1 around o - f.  Here this integral is the limit of its Riemann sums: n parts each
   way, the density at the midpoint of each of the n^d small cubes.

   What is proved: the Riemann sums converge (so the integral exists, in every dimension); the
   integrals over all cubes have a finite positive sum (so the constant of proportion exists, and
   the probabilities sum to 1, around every statistic); an integer statistic of sensitivity Delta in
   the norm, with noise of scale Delta / eps, is eps-DP.  Nothing about the integral is assumed.

   On paper: that a Gamma radius times a uniform direction, or a uniform point of the cube, has this
   density, which is how skdp draws the point; the sampler's rounding is certified by its own error
   bound.

   PROOFS.md: "Noise on integers".  Modules: skdp/core/noise/vectors.py (k_norm),
   skdp/core/mechanisms.py (Spherical.noised). *)
Require Import Reals Lra Lia ZArith Psatz FunctionalExtensionality.
From Skdp Require Import Sums Privacy Laplace.
Open Scope R_scope.

(* --- real vectors and their Euclidean norm ---------------------------------------------------- *)

Definition point := nat -> R.
Fixpoint overR (d : nat) (f : point) : R := match d with O => 0 | S k => overR k f + f k end.
Lemma overR_le d f g : (forall j, (j < d)%nat -> f j <= g j) -> overR d f <= overR d g.
Proof.
  induction d; simpl; intros H; [lra|]. pose proof (H d ltac:(lia)).
  assert (overR d f <= overR d g) by (apply IHd; intros; apply H; lia). lra.
Qed.
Lemma overR_ext d f g : (forall j, (j < d)%nat -> f j = g j) -> overR d f = overR d g.
Proof. intros H. apply Rle_antisym; apply overR_le; intros; rewrite H by auto; lra. Qed.
Lemma overR_plus d f g : overR d (fun j => f j + g j) = overR d f + overR d g.
Proof. induction d; simpl; lra. Qed.
Lemma overR_scale d c f : overR d (fun j => c * f j) = c * overR d f.
Proof. induction d; simpl; [lra|]. rewrite IHd. lra. Qed.
Lemma overR_const d c : overR d (fun _ => c) = INR d * c.
Proof. induction d; [simpl; lra|]. rewrite S_INR. simpl overR. rewrite IHd. lra. Qed.
Lemma overR_0 d f : (forall j, (j < d)%nat -> 0 <= f j) -> 0 <= overR d f.
Proof. intros H. rewrite <- (Rmult_0_r (INR d)), <- overR_const. apply overR_le; auto. Qed.
Lemma overR_abs d f : Rabs (overR d f) <= overR d (fun j => Rabs (f j)).
Proof.
  induction d; simpl; [rewrite Rabs_R0; lra|]. eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.
(* A sum of which only one entry is not 0. *)
Lemma overR_single d k c : 0 <= c -> overR d (fun j => if Nat.eqb j k then c else 0) <= c.
Proof.
  intros C.
  assert (H : forall e, (e <= k)%nat -> overR e (fun j => if Nat.eqb j k then c else 0) = 0).
  { induction e; intros L; simpl; auto. rewrite IHe by lia.
    replace (Nat.eqb e k) with false by (symmetry; apply Nat.eqb_neq; lia). lra. }
  induction d; simpl; [lra|]. destruct (Nat.eqb_spec d k) as [->|N]; [rewrite H by lia; lra|lra].
Qed.

Definition squares d (x : point) := overR d (fun j => x j * x j).
Definition norm d (x : point) := sqrt (squares d x).
Lemma squares_0 d x : 0 <= squares d x.
Proof. apply overR_0. intros. nra. Qed.
Lemma norm_0 d x : 0 <= norm d x.
Proof. apply sqrt_pos. Qed.
Lemma norm_sq d x : norm d x * norm d x = squares d x.
Proof. apply sqrt_sqrt, squares_0. Qed.
Lemma norm_ext d x y : (forall j, (j < d)%nat -> x j = y j) -> norm d x = norm d y.
Proof. intros H. unfold norm, squares. f_equal. apply overR_ext. intros; rewrite H; auto. Qed.
Lemma le_of_squares a b : 0 <= b -> a * a <= b * b -> a <= b.
Proof. intros B H. destruct (Rle_lt_dec a b); auto. nra. Qed.
Lemma products_le d (x y : point) : overR d (fun j => x j * y j) <= norm d x * norm d y.
Proof.
  induction d as [|k IH]; simpl.
  - unfold norm, squares; simpl. rewrite sqrt_0. lra.
  - pose proof (norm_0 k x) as A0. pose proof (norm_0 k y) as B0.
    pose proof (norm_0 (S k) x) as C0. pose proof (norm_0 (S k) y) as D0.
    assert (C : norm (S k) x * norm (S k) x = norm k x * norm k x + x k * x k)
      by (rewrite !norm_sq; reflexivity).
    assert (D : norm (S k) y * norm (S k) y = norm k y * norm k y + y k * y k)
      by (rewrite !norm_sq; reflexivity).
    set (A := norm k x) in *. set (B := norm k y) in *.
    apply Rle_trans with (A * B + x k * y k); [lra|].
    apply le_of_squares; [apply Rmult_le_pos; auto|].
    replace (norm (S k) x * norm (S k) y * (norm (S k) x * norm (S k) y))
      with ((norm (S k) x * norm (S k) x) * (norm (S k) y * norm (S k) y)) by ring.
    rewrite C, D. pose proof (Rle_0_sqr (A * y k - B * x k)). unfold Rsqr in *. nra.
Qed.
Theorem norm_triangle d (x y : point) : norm d (fun j => x j + y j) <= norm d x + norm d y.
Proof.
  pose proof (norm_0 d x). pose proof (norm_0 d y). pose proof (products_le d x y).
  apply le_of_squares; [lra|]. rewrite norm_sq.
  assert (E : squares d (fun j => x j + y j)
              = squares d x + 2 * overR d (fun j => x j * y j) + squares d y).
  { unfold squares. rewrite <- overR_scale, <- !overR_plus. apply overR_ext; intros; ring. }
  rewrite E. pose proof (norm_sq d x). pose proof (norm_sq d y). nra.
Qed.
Lemma norm_le_l1 d x : norm d x <= overR d (fun j => Rabs (x j)).
Proof.
  assert (P : 0 <= overR d (fun j => Rabs (x j))) by (apply overR_0; intros; apply Rabs_pos).
  apply le_of_squares; auto. rewrite norm_sq. unfold squares. clear P.
  induction d as [|k IH]; simpl; [lra|].
  assert (P : 0 <= overR k (fun j => Rabs (x j))) by (apply overR_0; intros; apply Rabs_pos).
  pose proof (Rabs_pos (x k)).
  assert (E : x k * x k = Rabs (x k) * Rabs (x k))
    by (rewrite <- Rabs_mult; rewrite Rabs_right; nra).
  nra.
Qed.
Lemma norm_ge_l1 d x : overR d (fun j => Rabs (x j)) <= INR d * norm d x.
Proof.
  rewrite <- overR_const. apply overR_le. intros k L. apply le_of_squares; [apply norm_0|].
  rewrite norm_sq, <- Rabs_mult, Rabs_right by nra. unfold squares. clear - L.
  induction d; [lia|]. simpl. pose proof (squares_0 d x) as P. unfold squares in P.
  destruct (Nat.eq_dec k d) as [->|N]; [lra|]. specialize (IHd ltac:(lia)). nra.
Qed.

(* --- the largest coordinate ------------------------------------------------------------------- *)

Fixpoint largest d (x : point) : R := match d with
  | O => 0
  | S k => Rmax (largest k x) (Rabs (x k)) end.
Lemma largest_0 d x : 0 <= largest d x.
Proof. induction d; simpl; [lra|]. eapply Rle_trans; [exact IHd|apply Rmax_l]. Qed.
Lemma largest_ext d x y : (forall j, (j < d)%nat -> x j = y j) -> largest d x = largest d y.
Proof.
  induction d; simpl; intros H; [reflexivity|]. rewrite H by lia. rewrite IHd; auto.
Qed.
Lemma largest_ge d x j : (j < d)%nat -> Rabs (x j) <= largest d x.
Proof.
  induction d; simpl; intros H; [lia|]. destruct (Nat.eq_dec j d) as [->|N]; [apply Rmax_r|].
  eapply Rle_trans; [apply IHd; lia|apply Rmax_l].
Qed.
Lemma largest_le d x c : 0 <= c -> (forall j, (j < d)%nat -> Rabs (x j) <= c) -> largest d x <= c.
Proof. intros C. induction d; simpl; intros H; [exact C|]. apply Rmax_lub; auto. Qed.
Lemma largest_triangle d x y : largest d (fun j => x j + y j) <= largest d x + largest d y.
Proof.
  pose proof (largest_0 d x). pose proof (largest_0 d y). apply largest_le; [lra|]. intros j J.
  pose proof (largest_ge d x j J). pose proof (largest_ge d y j J).
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.
Lemma largest_le_l1 d x : largest d x <= overR d (fun j => Rabs (x j)).
Proof.
  induction d; simpl; [lra|]. pose proof (Rabs_pos (x d)).
  assert (0 <= overR d (fun j => Rabs (x j))) by (apply overR_0; intros; apply Rabs_pos).
  apply Rmax_lub; lra.
Qed.
Lemma largest_ge_l1 d x : overR d (fun j => Rabs (x j)) <= INR d * largest d x.
Proof. rewrite <- overR_const. apply overR_le. intros. apply largest_ge; auto. Qed.

(* --- what the noise needs of a norm ----------------------------------------------------------- *)

Record a_norm := {
  norm_at :> nat -> point -> R;
  norm_at_0 : forall d x, 0 <= norm_at d x;
  norm_at_ext : forall d x y, (forall j, (j < d)%nat -> x j = y j) -> norm_at d x = norm_at d y;
  norm_at_triangle : forall d x y, norm_at d (fun j => x j + y j) <= norm_at d x + norm_at d y;
  norm_at_le_l1 : forall d x, norm_at d x <= overR d (fun j => Rabs (x j));
  norm_at_ge_l1 : forall d x, overR d (fun j => Rabs (x j)) <= INR d * norm_at d x }.
Definition euclidean := Build_a_norm norm norm_0 norm_ext norm_triangle norm_le_l1 norm_ge_l1.

(* Parts of so many coordinates side by side, and the sum of their largest ones.  With one part it
   is the largest coordinate of all. *)
Section Parts.
Variable part : nat -> nat. (* of which part a coordinate is; that of k is k at most *)
Hypothesis part_le : forall j, (part j <= j)%nat.
Definition in_part i (x : point) : point := fun j => if Nat.eqb (part j) i then x j else 0.
Definition largests d (x : point) := overR d (fun i => largest d (in_part i x)).
Lemma largests_0 d x : 0 <= largests d x.
Proof. apply overR_0. intros. apply largest_0. Qed.
Lemma largests_ext d x y : (forall j, (j < d)%nat -> x j = y j) -> largests d x = largests d y.
Proof.
  intros H. apply overR_ext. intros i _. apply largest_ext. intros j J. unfold in_part.
  rewrite H; auto.
Qed.
Lemma largests_triangle d x y :
  largests d (fun j => x j + y j) <= largests d x + largests d y.
Proof.
  unfold largests. rewrite <- overR_plus. apply overR_le. intros i _.
  eapply Rle_trans; [|apply largest_triangle]. right. apply largest_ext. intros j _.
  unfold in_part. destruct (Nat.eqb _ _); ring.
Qed.
Lemma largest_even d x y : (forall j, y j = - x j) -> largest d y = largest d x.
Proof. intros H. induction d; simpl; [reflexivity|]. rewrite IHd, H, Rabs_Ropp. reflexivity. Qed.
Lemma largests_even d x y : (forall j, y j = - x j) -> largests d y = largests d x.
Proof.
  intros H. apply overR_ext. intros i _. apply largest_even. intros j. unfold in_part.
  destruct (Nat.eqb _ _); [apply H|ring].
Qed.
Lemma largests_le_parts d x :
  largests d x <= overR d (fun _ => overR d (fun j => Rabs (x j))).
Proof.
  apply overR_le. intros i _. eapply Rle_trans; [apply largest_le_l1|]. apply overR_le.
  intros j _. unfold in_part. destruct (Nat.eqb _ _); [lra|]. rewrite Rabs_R0. apply Rabs_pos.
Qed.
Lemma sum_of_parts d (x : point) n : (n <= d)%nat ->
  overR d (fun i => overR n (fun j => Rabs (in_part i x j))) = overR n (fun j => Rabs (x j)).
Proof.
  induction n as [|n IH]; intros L; simpl.
  - rewrite overR_const. ring.
  - rewrite overR_plus, IH by lia. f_equal. pose proof (part_le n) as P. clear IH.
    assert (E : forall e, (e <= d)%nat -> overR e (fun i => Rabs (in_part i x n))
                = if Nat.ltb (part n) e then Rabs (x n) else 0).
    { induction e as [|e IH]; intros M; simpl; [reflexivity|]. rewrite IH by lia. unfold in_part.
      destruct (Nat.eqb_spec (part n) e) as [Q|Q].
      - rewrite Q. replace (Nat.ltb e e) with false by (symmetry; apply Nat.ltb_ge; lia).
        replace (Nat.ltb e (S e)) with true by (symmetry; apply Nat.ltb_lt; lia). ring.
      - rewrite Rabs_R0. destruct (Nat.ltb_spec (part n) e), (Nat.ltb_spec (part n) (S e));
        try lia; ring. }
    rewrite E by lia. replace (Nat.ltb (part n) d) with true; auto.
    symmetry. apply Nat.ltb_lt. lia.
Qed.
Lemma largests_le_l1 d x : largests d x <= overR d (fun j => Rabs (x j)).
Proof.
  rewrite <- (sum_of_parts d x d) by lia. apply overR_le. intros. apply largest_le_l1.
Qed.
Lemma largests_ge_l1 d x : overR d (fun j => Rabs (x j)) <= INR d * largests d x.
Proof.
  rewrite <- (sum_of_parts d x d) by lia. unfold largests. rewrite <- overR_scale.
  apply overR_le. intros. apply largest_ge_l1.
Qed.
Definition box_norm :=
  Build_a_norm largests largests_0 largests_ext largests_triangle largests_le_l1 largests_ge_l1.
End Parts.

Section Norm.
Variable len : a_norm.
Lemma norm_at_lipschitz d x y : Rabs (len d x - len d y) <= overR d (fun j => Rabs (x j - y j)).
Proof.
  pose proof (norm_at_triangle len d (fun j => x j - y j) y) as A.
  pose proof (norm_at_triangle len d (fun j => y j - x j) x) as B.
  rewrite (norm_at_ext len d _ x) in A by (intros; ring).
  rewrite (norm_at_ext len d _ y) in B by (intros; ring).
  pose proof (norm_at_le_l1 len d (fun j => x j - y j)) as C.
  pose proof (norm_at_le_l1 len d (fun j => y j - x j)) as D. cbv beta in *.
  rewrite (overR_ext d (fun j => Rabs (y j - x j)) (fun j => Rabs (x j - y j))) in D
    by (intros; apply Rabs_minus_sym).
  apply Rabs_le. lra.
Qed.

(* --- the density ------------------------------------------------------------------------------ *)

Definition density (s : R) d (x : point) := exp (- len d x / s).
Lemma exp_lipschitz a b : 0 <= a -> 0 <= b -> Rabs (exp (- a) - exp (- b)) <= Rabs (a - b).
Proof.
  assert (H : forall a b, 0 <= a -> a <= b -> Rabs (exp (- a) - exp (- b)) <= Rabs (a - b)).
  { clear. intros a b A L. pose proof (exp_le (- b) (- a) ltac:(lra)).
    rewrite Rabs_right by lra. rewrite Rabs_left1 by lra.
    assert (E : exp (- b) = exp (- a) * exp (- (b - a))) by (rewrite <- exp_plus; f_equal; ring).
    assert (F : 1 + - (b - a) <= exp (- (b - a))) by (apply exp_ineq1_le).
    assert (G : exp (- a) <= 1) by (rewrite <- exp_0; apply exp_le; lra).
    pose proof (exp_pos (- a)). rewrite E. nra. }
  intros A B. destruct (Rle_lt_dec a b); [apply H; auto|].
  rewrite (Rabs_minus_sym (exp _)), (Rabs_minus_sym a). apply H; lra.
Qed.
Lemma density_lipschitz s d x y : 0 < s ->
  Rabs (density s d x - density s d y) <= / s * overR d (fun j => Rabs (x j - y j)).
Proof.
  intros S. pose proof (Rinv_0_lt_compat s S) as I. unfold density, Rdiv.
  rewrite !Ropp_mult_distr_l_reverse. pose proof (norm_at_0 len d x). pose proof (norm_at_0 len d y).
  eapply Rle_trans; [apply exp_lipschitz; nra|].
  rewrite <- Rmult_minus_distr_r, Rabs_mult, (Rabs_right (/ s)) by lra.
  rewrite Rmult_comm. apply Rmult_le_compat_l; [lra|]. apply norm_at_lipschitz.
Qed.

(* --- Riemann sums over a cube of side 1 ------------------------------------------------------- *)

Definition put (k : nat) (v : R) (x : point) : point := fun j => if Nat.eqb j k then v else x j.
(* The midpoint of part i of the n equal parts of [-1/2, 1/2]. *)
Definition spot (n i : nat) : R := - / 2 + (INR i + / 2) / INR n.
Definition mean n (g : nat -> R) := overR n g / INR n.
(* The Riemann sum of h over the cube around x in the first d coordinates, n parts each way. *)
Fixpoint grid n d (h : point -> R) (x : point) : R := match d with
  | O => h x
  | S k => mean n (fun i => grid n k h (put k (x k + spot n i) x)) end.

Lemma INR_pos n : (0 < n)%nat -> 0 < INR n.
Proof. intros. apply lt_0_INR; auto. Qed.
Lemma mean_le n f g : (0 < n)%nat -> (forall i, (i < n)%nat -> f i <= g i) -> mean n f <= mean n g.
Proof.
  intros N H. unfold mean, Rdiv. apply Rmult_le_compat_r; [|apply overR_le; auto].
  left. apply Rinv_0_lt_compat, INR_pos; auto.
Qed.
Lemma mean_scale n c f : mean n (fun i => c * f i) = c * mean n f.
Proof. unfold mean. rewrite overR_scale. unfold Rdiv. ring. Qed.
Lemma mean_const n c : (0 < n)%nat -> mean n (fun _ => c) = c.
Proof. intros N. unfold mean. rewrite overR_const. pose proof (INR_pos n N). field. lra. Qed.
Lemma mean_dist n f g e : (0 < n)%nat -> (forall i, (i < n)%nat -> Rabs (f i - g i) <= e) ->
  Rabs (mean n f - mean n g) <= e.
Proof.
  intros N H. unfold mean. pose proof (INR_pos n N) as P. pose proof (Rinv_0_lt_compat _ P).
  assert (E : overR n f / INR n - overR n g / INR n = overR n (fun i => f i - g i) / INR n).
  { unfold Rminus. rewrite overR_plus.
    assert (F : overR n (fun i => - g i) = - overR n g).
    { rewrite <- (Rmult_1_l (overR n g)), <- Ropp_mult_distr_l_reverse, <- overR_scale.
      apply overR_ext; intros; ring. }
    rewrite F. unfold Rdiv. ring. }
  rewrite E. unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ INR n)) by lra.
  apply Rmult_le_reg_r with (r := INR n); auto. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
  eapply Rle_trans; [apply overR_abs|]. rewrite Rmult_comm, <- overR_const. apply overR_le. auto.
Qed.
Lemma overR_app a b g : overR (a + b) g = overR a g + overR b (fun l => g (a + l)%nat).
Proof.
  induction b; simpl; [rewrite Nat.add_0_r; lra|]. rewrite Nat.add_succ_r. simpl. rewrite IHb. lra.
Qed.
Lemma regrouped n m g : overR (n * m) g = overR n (fun i => overR m (fun l => g (i * m + l)%nat)).
Proof.
  induction n as [|n IH]; [reflexivity|]. rewrite Nat.mul_succ_l, overR_app, IH. reflexivity.
Qed.
Lemma mean_of_means n m g : (0 < n)%nat -> (0 < m)%nat ->
  mean (n * m) g = mean n (fun i => mean m (fun l => g (i * m + l)%nat)).
Proof.
  intros N M. unfold mean. rewrite regrouped, mult_INR. unfold Rdiv.
  rewrite (overR_ext n (fun i => overR m (fun l => g (i * m + l)%nat) * / INR m)
             (fun i => / INR m * overR m (fun l => g (i * m + l)%nat))) by (intros; ring).
  rewrite overR_scale. pose proof (INR_pos n N). pose proof (INR_pos m M). field. lra.
Qed.
Lemma spot_inside n i : (i < n)%nat -> Rabs (spot n i) <= / 2.
Proof.
  intros L. unfold spot. pose proof (INR_pos n ltac:(lia)) as P.
  assert (A : 0 <= (INR i + / 2) / INR n).
  { apply Rmult_le_pos; [pose proof (pos_INR i); lra|]. left; apply Rinv_0_lt_compat; auto. }
  assert (B : (INR i + / 2) / INR n <= 1).
  { apply Rmult_le_reg_r with (r := INR n); auto. unfold Rdiv.
    rewrite Rmult_assoc, Rinv_l, Rmult_1_r, Rmult_1_l by lra.
    assert (INR (S i) <= INR n) by (apply le_INR; lia). rewrite S_INR in *. lra. }
  apply Rabs_le. lra.
Qed.
(* Where each part is cut into m, the midpoints of the smaller ones are near. *)
Lemma spot_near n m i l : (0 < n)%nat -> (l < m)%nat ->
  Rabs (spot n i - spot (n * m) (i * m + l)) <= / INR n.
Proof.
  intros N L. unfold spot. rewrite mult_INR, plus_INR, mult_INR.
  pose proof (INR_pos n N) as P. pose proof (INR_pos m ltac:(lia)) as M.
  replace (- / 2 + (INR i + / 2) / INR n
           - (- / 2 + (INR i * INR m + INR l + / 2) / (INR n * INR m)))
    with (((INR m / 2 - INR l - / 2) / INR m) * / INR n) by (field; lra).
  pose proof (Rinv_0_lt_compat _ P). rewrite Rabs_mult, (Rabs_right (/ INR n)) by lra.
  rewrite <- (Rmult_1_l (/ INR n)) at 2. apply Rmult_le_compat_r; [lra|].
  assert (A : INR (S l) <= INR m) by (apply le_INR; lia). rewrite S_INR in A.
  pose proof (pos_INR l). unfold Rdiv at 1. rewrite Rabs_mult.
  rewrite (Rabs_right (/ INR m)) by (left; apply Rinv_0_lt_compat; auto).
  apply Rmult_le_reg_r with (r := INR m); auto.
  rewrite Rmult_assoc, Rinv_l, Rmult_1_r, Rmult_1_l by lra. apply Rabs_le. lra.
Qed.

(* A function that moves by at most L times the L1 distance; so do its Riemann sums. *)
Section Lipschitz.
Variables (d : nat) (h : point -> R) (L : R).
Hypothesis L0 : 0 <= L.
Hypothesis lip : forall x y, Rabs (h x - h y) <= L * overR d (fun j => Rabs (x j - y j)).
Lemma grid_lipschitz n k : (0 < n)%nat -> forall x y,
  Rabs (grid n k h x - grid n k h y) <= L * overR d (fun j => Rabs (x j - y j)).
Proof.
  intros N. induction k as [|k IH]; intros x y; cbn [grid]; [apply lip|].
  apply mean_dist; auto. intros i _. eapply Rle_trans; [apply IH|]. right. f_equal.
  apply overR_ext. intros j _. unfold put. destruct (Nat.eqb_spec j k) as [->|]; auto.
  f_equal. ring.
Qed.
Lemma grid_refined n m k : (0 < n)%nat -> (0 < m)%nat -> forall x,
  Rabs (grid n k h x - grid (n * m) k h x) <= L * INR k / INR n.
Proof.
  intros N M. pose proof (INR_pos n N) as P.
  induction k as [|k IH]; intros x; cbn [grid].
  - simpl INR. rewrite Rminus_diag_eq by auto. rewrite Rabs_R0. unfold Rdiv. lra.
  - rewrite mean_of_means by auto. apply mean_dist; auto. intros i _.
    set (a := grid n k h (put k (x k + spot n i) x)).
    rewrite <- (mean_const m a) by auto. apply mean_dist; auto. intros l Hl. unfold a.
    set (b := grid (n * m) k h (put k (x k + spot n i) x)).
    set (c := grid (n * m) k h (put k (x k + spot (n * m) (i * m + l)) x)).
    replace (grid n k h (put k (x k + spot n i) x) - c)
      with ((grid n k h (put k (x k + spot n i) x) - b) + (b - c)) by ring.
    eapply Rle_trans; [apply Rabs_triang|].
    replace (L * INR (S k) / INR n) with (L * INR k / INR n + L * / INR n)
      by (rewrite S_INR; field; lra).
    apply Rplus_le_compat; [apply IH|].
    eapply Rle_trans; [apply grid_lipschitz; lia|]. apply Rmult_le_compat_l; auto.
    eapply Rle_trans; [|apply (spot_near n m i l); auto].
    eapply Rle_trans; [|apply (overR_single d k); apply Rabs_pos]. apply overR_le. intros j _.
    unfold put. destruct (Nat.eqb_spec j k) as [->|]; [right; f_equal; ring|].
    rewrite Rminus_diag_eq by auto. rewrite Rabs_R0. lra.
Qed.
(* The Riemann sums converge: the integral exists. *)
Theorem grids_converge x : {v | Un_cv (fun n => grid (S n) d h x) v}.
Proof.
  apply R_complete. intros e E.
  assert (C0 : 0 <= L * INR d) by (apply Rmult_le_pos; [auto|apply pos_INR]).
  destruct (archimed_cor1 (e / (2 * (L * INR d + 1)))) as (N & HN & N0).
  { apply Rdiv_lt_0_compat; lra. }
  exists N. unfold R_dist.
  assert (A : forall n, (n >= N)%nat -> L * INR d / INR (S n) < e / 2).
  { intros n G. pose proof (INR_pos N N0) as P.
    assert (I : / INR (S n) <= / INR N) by (apply Rinv_le_contravar; [auto|apply le_INR; lia]).
    assert (0 < / INR (S n)) by (apply Rinv_0_lt_compat, INR_pos; lia).
    apply Rle_lt_trans with ((L * INR d + 1) * / INR N); [unfold Rdiv; nra|].
    apply Rlt_le_trans with ((L * INR d + 1) * (e / (2 * (L * INR d + 1)))).
    - apply Rmult_lt_compat_l; lra.
    - right. field. lra. }
  intros n m Hn Hm.
  pose proof (grid_refined (S n) (S m) d ltac:(lia) ltac:(lia) x) as P.
  pose proof (grid_refined (S m) (S n) d ltac:(lia) ltac:(lia) x) as Q.
  rewrite (Nat.mul_comm (S m) (S n)) in Q.
  set (w := grid (S n * S m) d h x) in *. specialize (A n Hn) as A1. specialize (A m Hm) as A2.
  replace (grid (S n) d h x - grid (S m) d h x)
    with ((grid (S n) d h x - w) + - (grid (S m) d h x - w)) by ring.
  eapply Rle_lt_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp. lra.
Qed.
End Lipschitz.

(* If h at x is at most C times h at x + w, for every x, the same holds for the Riemann sums. *)
Lemma grid_shifted n d h (w : point) C : (0 < n)%nat ->
  (forall x y, (forall j, (j < d)%nat -> y j = x j + w j) -> h x <= C * h y) ->
  forall k, (k <= d)%nat -> forall x y, (forall j, (j < d)%nat -> y j = x j + w j) ->
  grid n k h x <= C * grid n k h y.
Proof.
  intros N H. induction k as [|k IH]; intros K x y E; cbn [grid]; [apply H; auto|].
  rewrite <- mean_scale. apply mean_le; auto. intros i _. apply IH; [lia|]. intros j J.
  unfold put. destruct (Nat.eqb_spec j k) as [->|]; [rewrite E by lia; ring|auto].
Qed.
(* Bounds on the cube are bounds of the Riemann sums. *)
Lemma grid_between n d h low high x : (0 < n)%nat ->
  (forall y, (forall j, (j < d)%nat -> Rabs (y j - x j) <= / 2) -> low <= h y <= high) ->
  low <= grid n d h x <= high.
Proof.
  intros N H.
  enough (A : forall k, (k <= d)%nat -> forall y,
            (forall j, (j < k)%nat -> y j = x j) ->
            (forall j, (k <= j < d)%nat -> Rabs (y j - x j) <= / 2) ->
            low <= grid n k h y <= high).
  { apply (A d); auto. intros; lia. }
  induction k as [|k IH]; intros K y E F; cbn [grid].
  - apply H. intros j J. apply F. lia.
  - rewrite <- (mean_const n low), <- (mean_const n high) by auto.
    assert (B : forall i, (i < n)%nat ->
              low <= grid n k h (put k (y k + spot n i) y) <= high).
    { intros i I. apply IH; [lia| |].
      - intros j J. unfold put. replace (Nat.eqb j k) with false; [apply E; lia|].
        symmetry. apply Nat.eqb_neq; lia.
      - intros j J. unfold put. destruct (Nat.eqb_spec j k) as [->|]; [|apply F; lia].
        rewrite E by lia. replace (x k + spot n i - x k) with (spot n i) by ring.
        apply spot_inside; auto. }
    split; apply mean_le; auto; intros i I; apply B; auto.
Qed.

(* --- the integral over the cube around an integer vector -------------------------------------- *)

Definition real (z : vec) : point := fun j => IZR (z j).
Definition riemann s d z n := grid (S n) d (density s d) (real z).
Theorem riemann_converges s d z : 0 < s -> {v | Un_cv (riemann s d z) v}.
Proof.
  intros H. apply (grids_converge d (density s d) (/ s)).
  - left. apply Rinv_0_lt_compat; auto.
  - intros. apply density_lipschitz; auto.
Qed.
Definition cube s d z : R := match Rlt_dec 0 s with
  | left H => proj1_sig (riemann_converges s d z H)
  | right _ => 0 end.
Theorem cube_is_integral s d z : 0 < s -> Un_cv (riemann s d z) (cube s d z).
Proof.
  intros H. unfold cube. destruct (Rlt_dec 0 s) as [P|N]; [|contradiction].
  destruct (riemann_converges s d z P); auto.
Qed.
Lemma CV_scale c u v : Un_cv u v -> Un_cv (fun n => c * u n) (c * v).
Proof. intros H. apply (CV_mult (fun _ => c)); [apply CV_const|auto]. Qed.
Definition len_of d (v : vec) := len d (real v).
Theorem cube_ratio s d z z' : 0 < s ->
  cube s d z <= exp (len_of d (minus z' z) / s) * cube s d z'.
Proof.
  intros H. set (C := exp _).
  eapply Rle_cv_lim; [|apply cube_is_integral; auto
                      |apply (CV_scale C); apply cube_is_integral; auto].
  intros n. cbv beta.
  apply (grid_shifted (S n) d (density s d) (real (minus z' z)) C); auto; [lia| |].
  - intros x y E. unfold C, density, len_of. rewrite <- exp_plus. apply exp_le.
    unfold Rdiv. rewrite <- Rmult_plus_distr_r. apply Rmult_le_compat_r.
    + left. apply Rinv_0_lt_compat; auto.
    + pose proof (norm_at_triangle len d x (real (minus z' z))) as T.
      rewrite (norm_at_ext len d _ y) in T by (intros; rewrite E; auto). lra.
  - intros j _. unfold real, minus. rewrite minus_IZR. ring.
Qed.
Lemma cube_between s d z low high : 0 < s ->
  (forall y, (forall j, (j < d)%nat -> Rabs (y j - real z j) <= / 2) ->
     low <= density s d y <= high) -> low <= cube s d z <= high.
Proof.
  intros H B.
  assert (G : forall n, low <= riemann s d z n <= high)
    by (intros n; apply grid_between; auto; lia).
  pose proof (cube_is_integral s d z H) as C. split.
  - apply (@Rle_cv_lim (fun _ => low) (riemann s d z));
    [exact (fun n => proj1 (G n))|apply CV_const|exact C].
  - apply (@Rle_cv_lim (riemann s d z) (fun _ => high));
    [exact (fun n => proj2 (G n))|exact C|apply CV_const].
Qed.
Lemma cube_pos s d z : 0 < s -> 0 < cube s d z.
Proof.
  intros H. set (low := exp (- (len d (real z) + INR d) / s)).
  apply Rlt_le_trans with low; [apply exp_pos|].
  apply (cube_between s d z low 1 H). intros y Y. unfold low, density.
  pose proof (Rinv_0_lt_compat s H) as I. pose proof (norm_at_0 len d y) as P. split.
  - apply exp_le. unfold Rdiv. apply Rmult_le_compat_r; [lra|].
    pose proof (norm_at_lipschitz d y (real z)) as L.
    pose proof (Rle_abs (len d y - len d (real z))).
    assert (O : overR d (fun j => Rabs (y j - real z j)) <= INR d * / 2)
      by (rewrite <- overR_const; apply overR_le; auto).
    pose proof (pos_INR d). lra.
  - rewrite <- exp_0. apply exp_le. unfold Rdiv. nra.
Qed.

(* --- the constant of proportion, and a mass of 1 ---------------------------------------------- *)

Definition origin : vec := fun _ => 0%Z.
(* Away from 0 the integral falls at least as fast as discrete Laplace noise of scale s (d + 1). *)
Lemma cube_below s d : 0 < s ->
  exists K, 0 <= K /\ forall z, cube s d z <= noise (s * INR (S d)) d origin z * K.
Proof.
  intros H. assert (D1 : 0 < INR (S d)) by (apply INR_pos; lia).
  set (u := s * INR (S d)). assert (U : 0 < u) by (apply Rmult_lt_0_compat; auto).
  pose proof (q_range u U) as Q. set (q := exp (- / u)) in *.
  set (c := exp (/ 2 / u) * ((1 + q) / (1 - q))).
  assert (c0 : 0 < c).
  { apply Rmult_lt_0_compat; [apply exp_pos|]. apply Rdiv_lt_0_compat; lra. }
  assert (E : forall k z, exp (- overR k (fun j => Rabs (IZR (z j)) - / 2) / u)
                          = noise u k origin z * c ^ k).
  { induction k as [|k IH]; intros z; simpl.
    - replace (- 0 / u) with 0 by (field; lra). rewrite exp_0. lra.
    - replace (- (overR k (fun j => Rabs (IZR (z j)) - / 2) + (Rabs (IZR (z k)) - / 2)) / u)
        with (- overR k (fun j => Rabs (IZR (z j)) - / 2) / u
              + (/ 2 / u + - IZR (Z.abs (z k)) / u))
        by (rewrite abs_IZR; field; lra).
      rewrite exp_plus, IH, exp_plus. unfold lap, c. fold q. unfold origin. rewrite Z.sub_0_r.
      field. lra. }
  exists (c ^ d). split; [apply pow_le; lra|]. intros z. rewrite <- E.
  apply (cube_between s d z 0); auto. intros y Y. split; [left; apply exp_pos|].
  unfold density. apply exp_le. unfold Rdiv. rewrite !Ropp_mult_distr_l_reverse.
  apply Ropp_le_contravar.
  assert (A : overR d (fun j => Rabs (IZR (z j)) - / 2) <= INR (S d) * len d y).
  { pose proof (norm_at_ge_l1 len d y) as G. pose proof (norm_at_0 len d y). rewrite S_INR.
    apply Rle_trans with (overR d (fun j => Rabs (y j))); [|lra].
    apply overR_le. intros j J. specialize (Y j J). unfold real in Y.
    pose proof (Rabs_triang (IZR (z j) - y j) (y j)) as T.
    replace (IZR (z j) - y j + y j) with (IZR (z j)) in T by ring.
    rewrite (Rabs_minus_sym (IZR (z j))) in T. lra. }
  pose proof (Rinv_0_lt_compat u U). unfold u at 1. rewrite Rinv_mult.
  apply Rle_trans with (INR (S d) * len d y * (/ s * / INR (S d))).
  - apply Rmult_le_compat_r; auto. left. apply Rmult_lt_0_compat; apply Rinv_0_lt_compat; auto.
  - right. field. lra.
Qed.
Lemma around_pos n g : (forall m, 0 <= g m) -> 0 <= around n g.
Proof.
  intros H. induction n; cbn [around]; [apply H|]. pose proof (H (Z.of_nat (S n))).
  pose proof (H (- Z.of_nat (S n))%Z). lra.
Qed.
Lemma around_growing n g : (forall m, 0 <= g m) -> around n g <= around (S n) g.
Proof.
  intros H. cbn [around]. pose proof (H (Z.of_nat (S n))). pose proof (H (- Z.of_nat (S n))%Z). lra.
Qed.
Lemma box_pos n d F c : (forall o, 0 <= F o) -> 0 <= box n d F c.
Proof.
  intros H. revert c. induction d; intros c; cbn [box]; [apply H|]. apply around_pos. auto.
Qed.
Lemma box_growing n d F c : (forall o, 0 <= F o) -> box n d F c <= box (S n) d F c.
Proof.
  intros H. revert c. induction d as [|k IH]; intros c; cbn [box]; [lra|].
  apply Rle_trans with (around n (fun m => box (S n) k F (putZ k (c k + m)%Z c))).
  - apply around_le. auto.
  - apply around_growing. intros. apply box_pos; auto.
Qed.
Theorem cubes_summable s d : 0 < s -> {t | Un_cv (fun n => box n d (cube s d) origin) t}.
Proof.
  intros H. apply growing_cv.
  - intros n. apply box_growing. intros. left. apply cube_pos; auto.
  - destruct (cube_below s d H) as (K & K0 & B). set (u := s * INR (S d)) in *.
    assert (U : 0 < u) by (apply Rmult_lt_0_compat; [auto|apply INR_pos; lia]).
    exists K. intros v (n & ->).
    eapply Rle_trans; [apply box_le; apply B|]. rewrite box_scale.
    rewrite (noise_mass u n d origin U). rewrite <- (Rmult_1_l K) at 2.
    apply Rmult_le_compat_r; auto. destruct (lap_mass_le u n U).
    rewrite <- (pow1 d). apply pow_incr. auto.
Qed.
(* The sum of the integrals over all cubes, that is, over the whole space. *)
Definition everything s d : R := match Rlt_dec 0 s with
  | left H => proj1_sig (cubes_summable s d H)
  | right _ => 0 end.
Lemma everything_is_limit s d : 0 < s ->
  Un_cv (fun n => box n d (cube s d) origin) (everything s d).
Proof.
  intros H. unfold everything. destruct (Rlt_dec 0 s) as [P|N]; [|contradiction].
  destruct (cubes_summable s d P); auto.
Qed.
Lemma everything_pos s d : 0 < s -> 0 < everything s d.
Proof.
  intros H. apply Rlt_le_trans with (box 0 d (cube s d) origin).
  - assert (P : forall k c, 0 < box 0 k (cube s d) c).
    { induction k; intros c; cbn [box around]; [apply cube_pos; auto|apply IHk]. }
    apply P.
  - apply (growing_ineq (fun n => box n d (cube s d) origin)).
    + intros n. apply box_growing. intros. left. apply cube_pos; auto.
    + apply everything_is_limit; auto.
Qed.

(* The probability of the released vector o where the exact statistic is f. *)
Definition k_noise s d (f o : vec) : R := cube s d (minus o f) / everything s d.
Lemma k_noise_pos s d f o : 0 < s -> 0 < k_noise s d f o.
Proof.
  intros H. apply Rdiv_lt_0_compat; [apply cube_pos|apply everything_pos]; auto.
Qed.
Lemma box_centred n k s d f c : box n k (fun o => cube s d (minus o f)) c
  = box n k (cube s d) (minus c f).
Proof.
  revert c. induction k as [|k IH]; intros c; cbn [box]; [reflexivity|]. apply around_ext.
  intros m. rewrite IH. f_equal. extensionality j. unfold minus, putZ.
  destruct (Nat.eqb_spec j k) as [->|]; [ring|reflexivity].
Qed.
Theorem k_noise_mass_1 s d f : 0 < s -> Un_cv (fun n => box n d (k_noise s d f) f) 1.
Proof.
  intros H. pose proof (everything_pos s d H) as P. pose proof (everything_is_limit s d H) as E.
  apply (CV_scale (/ everything s d)) in E. rewrite Rinv_l in E by lra.
  intros e e0. destruct (E e e0) as [N HN]. exists N. intros n L. specialize (HN n L).
  unfold k_noise, Rdiv. rewrite (box_scale n d (fun o => cube s d (minus o f))).
  rewrite box_centred, Rmult_comm. replace (minus f f) with origin; auto.
  extensionality j. unfold minus, origin. ring.
Qed.
Theorem k_noise_ratio s d f g o : 0 < s ->
  k_noise s d f o <= exp (len_of d (minus f g) / s) * k_noise s d g o.
Proof.
  intros H. unfold k_noise, Rdiv. rewrite <- Rmult_assoc.
  apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat, everything_pos; auto|].
  replace (minus f g) with (minus (minus o g) (minus o f)); [apply cube_ratio; auto|].
  extensionality j. unfold minus. ring.
Qed.
(* Integer statistic of sensitivity Delta in this norm, scale Delta / eps: eps-DP. *)
Theorem noise_dp {T} (near : T -> T -> Prop) (f : T -> vec) d (Delta : Z) eps :
  (0 < Delta)%Z -> 0 < eps ->
  (forall x y, near x y -> len_of d (minus (f x) (f y)) <= IZR Delta) ->
  dp T near eps (fun x o => k_noise (IZR Delta / eps) d (f x) o).
Proof.
  intros HD E S x y N o. assert (D0 : 0 < IZR Delta) by (apply IZR_lt; auto).
  assert (P : 0 < IZR Delta / eps) by (apply Rdiv_lt_0_compat; auto).
  split; [left; apply k_noise_pos; auto|].
  eapply Rle_trans; [apply k_noise_ratio with (g := f y); auto|].
  apply Rmult_le_compat_r; [left; apply k_noise_pos; auto|]. apply exp_le.
  pose proof (S x y N) as M. apply Rmult_le_reg_r with (r := IZR Delta / eps); auto.
  replace (len_of d (minus (f x) (f y)) / (IZR Delta / eps) * (IZR Delta / eps))
    with (len_of d (minus (f x) (f y))) by (field; lra).
  replace (eps * (IZR Delta / eps)) with (IZR Delta) by (field; lra). exact M.
Qed.
End Norm.

(* --- the two norms ---------------------------------------------------------------------------- *)

Definition norm2 d (v : vec) := norm d (real v).
Lemma norm2_squares d v : norm2 d v * norm2 d v = IZR (sq d v).
Proof.
  unfold norm2. rewrite norm_sq. unfold squares, sq. induction d; simpl; [reflexivity|].
  rewrite plus_IZR, mult_IZR, IHd. reflexivity.
Qed.
Theorem norm2_le d v N : (0 <= N)%Z -> (sq d v <= N * N)%Z <-> norm2 d v <= IZR N.
Proof.
  intros H. assert (0 <= IZR N) by (apply IZR_le; auto).
  pose proof (norm_0 d (real v)) as P. fold (norm2 d v) in P.
  pose proof (norm2_squares d v) as E. split; intros L.
  - apply le_of_squares; auto. rewrite E, <- mult_IZR. apply IZR_le; auto.
  - apply le_IZR. rewrite <- E, mult_IZR. nra.
Qed.
(* Integer statistic of L2 sensitivity Delta, scale Delta / eps: eps-DP. *)
Theorem k_norm_dp {T} (near : T -> T -> Prop) (f : T -> vec) d (Delta : Z) eps :
  (0 < Delta)%Z -> 0 < eps ->
  (forall x y, near x y -> (sq d (minus (f x) (f y)) <= Delta * Delta)%Z) ->
  dp T near eps (fun x o => k_noise euclidean (IZR Delta / eps) d (f x) o).
Proof.
  intros HD E S. apply noise_dp; auto. intros x y N. apply norm2_le; [lia|auto].
Qed.
(* The largest changes of the parts of an integer statistic, as whole numbers, add up to Delta at
   most, scale Delta / eps: eps-DP. *)
Fixpoint largestZ d (v : vec) : Z := match d with
  | O => 0%Z
  | S k => Z.max (largestZ k v) (Z.abs (v k)) end.
Definition in_partZ (part : nat -> nat) i (v : vec) : vec :=
  fun j => if Nat.eqb (part j) i then v j else 0%Z.
Definition largestsZ part d (v : vec) := over d (fun i => largestZ d (in_partZ part i v)).
Lemma largestZ_real d v : IZR (largestZ d v) = largest d (real v).
Proof.
  induction d; simpl; [reflexivity|]. rewrite <- IHd. unfold real. rewrite <- abs_IZR.
  unfold Rmax. destruct (Rle_dec _ _) as [L|L]; [apply le_IZR in L|].
  - rewrite Z.max_r; auto.
  - rewrite Z.max_l; auto.
    destruct (Z.le_gt_cases (Z.abs (v d)) (largestZ d v)); auto.
    exfalso. apply L. apply IZR_le. lia.
Qed.
Lemma largestsZ_real part d v : IZR (largestsZ part d v) = largests part d (real v).
Proof.
  unfold largestsZ, largests.
  assert (E : forall n, IZR (over n (fun i => largestZ d (in_partZ part i v)))
              = overR n (fun i => largest d (in_part part i (real v)))).
  { induction n; simpl; [reflexivity|]. rewrite plus_IZR, IHn, largestZ_real. f_equal.
    apply largest_ext. intros j _. unfold real, in_part, in_partZ.
    destruct (Nat.eqb _ _); reflexivity. }
  apply E.
Qed.
(* mechanisms.shortened of n parts: n - 1 is added to the bound. *)
Lemma over_below d n (g h : nat -> Z) : (forall i, (i < d)%nat -> 0 <= h i)%Z ->
  (forall i, (i < d)%nat -> (n <= i)%nat -> g i = 0)%Z ->
  (forall i, (i < d)%nat -> (i < n)%nat -> g i <= h i)%Z ->
  (over d g <= over d h)%Z /\ forall c, (0 <= c)%Z ->
  (over d (fun i => if Nat.ltb i n then c else 0) <= Z.of_nat n * c)%Z.
Proof.
  intros H0 HZ HL. split.
  - apply over_le. intros i L. destruct (Nat.lt_ge_cases i n); [apply HL; auto|].
    rewrite HZ by auto. apply H0; auto.
  - intros c C. clear HZ HL H0 g h.
    assert (E : forall e, (over e (fun i => if Nat.ltb i n then c else 0)
                           = Z.of_nat (Nat.min e n) * c)%Z).
    { induction e as [|e IH]; simpl over; [simpl; lia|]. rewrite IH.
      destruct (Nat.ltb_spec e n).
      - rewrite !Nat.min_l by lia. lia.
      - rewrite !Nat.min_r by lia. lia. }
    rewrite E. apply Z.mul_le_mono_nonneg_r; lia.
Qed.
Lemma largestZ_0 d v : (0 <= largestZ d v)%Z.
Proof. induction d; simpl; lia. Qed.
Theorem shortened_parts part n d t (f g : vec) D : (0 < t)%Z -> (0 < n)%nat ->
  (forall j, (j < d)%nat -> (part j < n)%nat) -> (largestsZ part d (minus f g) <= D)%Z ->
  (largestsZ part d (minus (fun j => shortened t (f j)) (fun j => shortened t (g j)))
   <= after_shortening D t (Z.of_nat n - 1))%Z.
Proof.
  intros Ht N P H. unfold after_shortening.
  set (k := (2 ^ t)%Z). assert (K : (0 < k)%Z) by (apply Z.pow_pos_nonneg; lia).
  set (s := minus (fun j => shortened t (f j)) (fun j => shortened t (g j))).
  assert (Q : forall i e, (k * largestZ e (in_partZ part i s)
                           <= largestZ e (in_partZ part i (minus f g)) + (k - 1))%Z).
  { intros i. induction e as [|e IH]; simpl; [lia|].
    pose proof (shortened_entry t (f e) (g e) Ht) as B. fold k in B.
    assert (S1 : (k * Z.abs (in_partZ part i s e)
                  <= Z.abs (in_partZ part i (minus f g) e) + (k - 1))%Z).
    { unfold in_partZ. destruct (Nat.eqb (part e) i); [unfold s, minus|]; lia. }
    destruct (Z.max_spec (largestZ e (in_partZ part i s)) (Z.abs (in_partZ part i s e)))
      as [[_ ->]|[_ ->]]; lia. }
  assert (Z0 : forall i, (n <= i)%nat -> largestZ d (in_partZ part i s) = 0%Z).
  { intros i L. assert (A : forall e, (e <= d)%nat -> largestZ e (in_partZ part i s) = 0%Z).
    { induction e as [|e IH]; intros M; simpl; [reflexivity|]. rewrite IH by lia. unfold in_partZ.
      destruct (Nat.eqb_spec (part e) i); [specialize (P e ltac:(lia)); lia|reflexivity]. }
    apply A; auto. }
  unfold largestsZ in *.
  destruct (over_below d n (fun i => k * largestZ d (in_partZ part i s))%Z
    (fun i => largestZ d (in_partZ part i (minus f g)) + (if Nat.ltb i n then k - 1 else 0))%Z)
    as [A B].
  - intros i L. pose proof (largestZ_0 d (in_partZ part i (minus f g))).
    destruct (Nat.ltb i n); lia.
  - intros i _ L. rewrite Z0 by auto. lia.
  - intros i _ L. apply Nat.ltb_lt in L. rewrite L. apply Q.
  - specialize (B (k - 1)%Z ltac:(lia)). rewrite over_scale, over_plus in A.
    pose proof (Z.div_mod (- D) k ltac:(lia)). pose proof (Z.mod_pos_bound (- D) k ltac:(lia)).
    set (x := (- D / k)%Z) in *. set (y := over d (fun i => largestZ d (in_partZ part i s))) in *.
    nia.
Qed.
Theorem cube_dp {T} (near : T -> T -> Prop) (f : T -> vec) part
  (H : forall j, (part j <= j)%nat) d (Delta : Z) eps : (0 < Delta)%Z -> 0 < eps ->
  (forall x y, near x y -> (largestsZ part d (minus (f x) (f y)) <= Delta)%Z) ->
  dp T near eps (fun x o => k_noise (box_norm part H) (IZR Delta / eps) d (f x) o).
Proof.
  intros HD E S. apply noise_dp; auto. intros x y N. unfold len_of. cbn [norm_at box_norm].
  rewrite <- largestsZ_real. apply IZR_le. auto.
Qed.
