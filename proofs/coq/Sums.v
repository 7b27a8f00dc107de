(* Sums of bounded integer row maps, and by how much they move.

   What is proved: a sum over rows is the same in any order and in any chunks; it moves by no more
   than the bound of the row map (one row added or removed) or twice that (one row replaced), in
   the L1 norm and in the L2 norm; a count costs nothing where rows are replaced, up to a weight;
   so do squares beside values, times 13/8; clipped rows keep their bound; the rounded square root
   is the least integer that bounds; rounding a statistic to fewer bits adds what skdp says it adds.

   PROOFS.md: "Exact sums", "Sums", "Noise on integers" (shortened statistics); queries/moments.md.
   Modules: skdp/core/clipping.py (isqrt_up, bounds of a box), skdp/core/sums.py,
   skdp/core/mechanisms.py (shortened, after_shortening), skdp/core/table.py (chunks).
   All numbers here are integers; no real numbers are used. *)
Require Import ZArith Lia List Permutation Psatz.
Import ListNotations.
Open Scope Z_scope.

(* --- vectors ---------------------------------------------------------------------------------- *)

(* A vector of d integers is a function of the index, of which the first d entries count. *)
Definition vec := nat -> Z.
Fixpoint over (d : nat) (f : vec) : Z := match d with O => 0 | S k => over k f + f k end.
Definition minus (u v : vec) : vec := fun j => u j - v j.
Definition l1 d (v : vec) := over d (fun j => Z.abs (v j)).
Definition sq d (v : vec) := over d (fun j => v j * v j).

Lemma over_le d f g : (forall j, (j < d)%nat -> f j <= g j) -> over d f <= over d g.
Proof.
  induction d; simpl; intros H; [lia|]. pose proof (H d ltac:(lia)).
  assert (over d f <= over d g) by (apply IHd; intros; apply H; lia). lia.
Qed.
Lemma over_ext d f g : (forall j, (j < d)%nat -> f j = g j) -> over d f = over d g.
Proof. intros H. apply Z.le_antisymm; apply over_le; intros; rewrite H by auto; lia. Qed.
Lemma over_plus d f g : over d (fun j => f j + g j) = over d f + over d g.
Proof. induction d; simpl; lia. Qed.
Lemma over_scale d c f : over d (fun j => c * f j) = c * over d f.
Proof. induction d; simpl; [lia|]. rewrite IHd. lia. Qed.
Lemma over_const d c : over d (fun _ => c) = Z.of_nat d * c.
Proof. induction d; simpl over; [lia|]. rewrite IHd. nia. Qed.
Lemma over_0 d f : (forall j, (j < d)%nat -> 0 <= f j) -> 0 <= over d f.
Proof. intros H. rewrite <- (Z.mul_0_r (Z.of_nat d)), <- over_const. apply over_le; auto. Qed.
Lemma sq_0 d v : 0 <= sq d v.
Proof. apply over_0. intros. apply Z.square_nonneg. Qed.
Lemma l1_0 d v : 0 <= l1 d v.
Proof. apply over_0. intros. lia. Qed.

(* --- sums over a table ------------------------------------------------------------------------ *)

Section Table.
Variable Row : Type.
Variable phi : Row -> vec. (* a row's image depends on that row only *)
Definition total (T : list Row) : vec := fun j => fold_right (fun r a => phi r j + a) 0 T.

(* Any order, any split into chunks, any number of threads: the same integers. *)
Theorem total_order T T' j : Permutation T T' -> total T j = total T' j.
Proof. unfold total. induction 1; simpl; lia. Qed.
Theorem total_chunks T U j : total (T ++ U) j = total T j + total U j.
Proof. unfold total. induction T; simpl in *; lia. Qed.

(* The two relations between neighbours: A and R of PROOFS.md. *)
Definition add_or_remove (T T' : list Row) :=
  (exists r, Permutation T' (r :: T)) \/ (exists r, Permutation T (r :: T')).
Definition replace_one (T T' : list Row) :=
  exists a b U, Permutation T (a :: U) /\ Permutation T' (b :: U).

Variable d : nat.
Lemma moved_A T T' : add_or_remove T T' -> exists r,
  (forall j, minus (total T) (total T') j = phi r j) \/
  (forall j, minus (total T) (total T') j = - phi r j).
Proof.
  intros [[r P]|[r P]]; exists r; [right|left]; intros j; unfold minus;
  rewrite (total_order _ _ j P); unfold total; simpl; lia.
Qed.
Lemma moved_R T T' : replace_one T T' -> exists a b, forall j,
  minus (total T) (total T') j = phi a j - phi b j.
Proof.
  intros (a & b & U & P & P'); exists a, b; intros j; unfold minus.
  rewrite (total_order _ _ j P), (total_order _ _ j P'). unfold total; simpl; lia.
Qed.

(* Delta_A = norm, Delta_R = 2 norm, in L1 and in L2. *)
Theorem sum_L1_A B T T' : (forall r, l1 d (phi r) <= B) -> add_or_remove T T' ->
  l1 d (minus (total T) (total T')) <= B.
Proof.
  intros H N. destruct (moved_A _ _ N) as [r [E|E]]; specialize (H r); unfold l1 in *;
  rewrite (over_ext d _ (fun j => Z.abs (phi r j))); auto; intros; rewrite E; lia.
Qed.
Theorem sum_L1_R B T T' : (forall r, l1 d (phi r) <= B) -> replace_one T T' ->
  l1 d (minus (total T) (total T')) <= 2 * B.
Proof.
  intros H N. destruct (moved_R _ _ N) as (a & b & E). unfold l1 in *.
  pose proof (H a); pose proof (H b).
  assert (over d (fun j => Z.abs (minus (total T) (total T') j)) <=
          over d (fun j => Z.abs (phi a j) + Z.abs (phi b j))).
  { apply over_le; intros; rewrite E; lia. }
  rewrite over_plus in *. lia.
Qed.
Theorem sum_L2_A N T T' : (forall r, sq d (phi r) <= N * N) -> add_or_remove T T' ->
  sq d (minus (total T) (total T')) <= N * N.
Proof.
  intros H M. destruct (moved_A _ _ M) as [r [E|E]]; specialize (H r); unfold sq in *;
  rewrite (over_ext d _ (fun j => phi r j * phi r j)); auto; intros; rewrite E; lia.
Qed.
(* Two rows of a ball are no further apart than its diameter. *)
Theorem ball_diameter N (u v : vec) : sq d u <= N * N -> sq d v <= N * N ->
  sq d (minus u v) <= (2 * N) * (2 * N).
Proof.
  intros U V. unfold sq in *.
  assert (H : over d (fun j => minus u v j * minus u v j) <=
              over d (fun j => 2 * (u j * u j) + 2 * (v j * v j))).
  { apply over_le; intros j _; unfold minus. pose proof (Z.square_nonneg (u j + v j)). lia. }
  rewrite over_plus, !over_scale in H. nia.
Qed.
Theorem sum_L2_R N T T' : (forall r, sq d (phi r) <= N * N) -> replace_one T T' ->
  sq d (minus (total T) (total T')) <= (2 * N) * (2 * N).
Proof.
  intros H M. destruct (moved_R _ _ M) as (a & b & E).
  pose proof (ball_diameter N (phi a) (phi b) (H a) (H b)) as D. unfold sq, minus in *.
  rewrite (over_ext d _ (fun j => (phi a j - phi b j) * (phi a j - phi b j))); auto.
  intros; cbv beta; rewrite E; lia.
Qed.
End Table.

(* (w n, sum q) under add-or-remove: the count is the sum of the map r |-> w. *)
Definition with_count {Row} (w : Z) (d : nat) (phi : Row -> vec) : Row -> vec :=
  fun r j => if Nat.eqb j d then w else phi r j.
Theorem with_count_bound {Row} w d (phi : Row -> vec) N r : sq d (phi r) <= N * N ->
  sq (S d) (with_count w d phi r) <= w * w + N * N.
Proof.
  unfold sq, with_count; simpl. rewrite Nat.eqb_refl. intros H.
  rewrite (over_ext d _ (fun j => phi r j * phi r j)); [lia|].
  intros j L. replace (Nat.eqb j d) with false; auto. symmetry. apply Nat.eqb_neq; lia.
Qed.
(* Under replace-one the count does not move. *)
Theorem with_count_replaced {Row} w d (phi : Row -> vec) N r s :
  sq d (phi r) <= N * N -> sq d (phi s) <= N * N ->
  sq (S d) (minus (with_count w d phi r) (with_count w d phi s)) <= (2 * N) * (2 * N).
Proof.
  intros R S. pose proof (ball_diameter d N (phi r) (phi s) R S) as D.
  unfold sq, minus, with_count in *; cbn [over]. rewrite Nat.eqb_refl, Z.sub_diag, Z.add_0_r.
  rewrite (over_ext d _ (fun j => (phi r j - phi s j) * (phi r j - phi s j))); [exact D|].
  intros j L. replace (Nat.eqb j d) with false; auto. symmetry. apply Nat.eqb_neq; lia.
Qed.

(* A count of the largest weight that costs nothing where rows are replaced: a row more or less
   moves the sums and their count no further than a row that is replaced moves the sums. *)
Theorem free_count {Row} d (phi : Row -> vec) N N' r : sq d (phi r) <= N -> N <= N' ->
  sq (S d) (with_count (Z.sqrt (N' - N)) d phi r) <= N'.
Proof.
  intros H L. unfold sq, with_count in *; simpl. rewrite Nat.eqb_refl.
  rewrite (over_ext d _ (fun j => phi r j * phi r j)).
  - destruct (Z.sqrt_spec (N' - N) ltac:(lia)) as [X _]. lia.
  - intros j J. replace (Nat.eqb j d) with false; auto. symmetry. apply Nat.eqb_neq; lia.
Qed.

(* --- moments (skdp/queries/moments.md) -------------------------------------------------------- *)

(* A column adds (8 q, 13 p), |q| <= Q, where p is q^2/Q - Q/2, rounded: 2|p| <= Q. A row more or
   less moves the sums by these; the squared L2 norm is at most 106.25 Q^2. *)
Theorem moments_added Q q p : Z.abs q <= Q -> 2 * Z.abs p <= Q ->
  4 * (64 * (q * q) + 169 * (p * p)) <= 425 * (Q * Q).
Proof. intros H1 H2. assert (q * q <= Q * Q) by nia. assert (4 * (p * p) <= Q * Q) by nia. lia. Qed.

(* By how much squares may move without rounding: (t - 10)^2 (32 - t) >= 0 for t = 13 k / Q. *)
Lemma moments_gap Q k : 1 <= k <= 2 * Q ->
  k * (128 * (Q * Q * Q)) <=
  13 * (64 * (k * (4 * Q - k)) * (Q * Q) - 169 * ((2 * Q - k) * k * ((2 * Q - k) * k))).
Proof.
  intros H.
  replace (13 * (64 * (k * (4 * Q - k)) * (Q * Q) - 169 * ((2 * Q - k) * k * ((2 * Q - k) * k))))
    with (k * (128 * (Q * Q * Q) + (13 * k - 10 * Q) * (13 * k - 10 * Q) * (32 * Q - 13 * k)))
    by ring.
  assert (0 <= (13 * k - 10 * Q) * (13 * k - 10 * Q) * (32 * Q - 13 * k)).
  { apply Z.mul_nonneg_nonneg; [apply Z.square_nonneg|lia]. }
  apply Z.mul_le_mono_nonneg_l; lia.
Qed.

(* Rows of equal squares have equal p, and rounding moves a difference of two p by less than 5/4. *)
Theorem moments_replaced Q q q' p p' : 128 <= Q -> Z.abs q <= Q -> Z.abs q' <= Q ->
  (q * q = q' * q' -> p = p') ->
  4 * (Q * Z.abs (p - p')) <= 4 * Z.abs (q * q - q' * q') + 5 * Q ->
  64 * ((q - q') * (q - q')) + 169 * ((p - p') * (p - p')) <= 256 * (Q * Q).
Proof.
  intros HQ Hq Hq' E H. set (k := 2 * Q - Z.abs (q - q')).
  assert (K : 0 <= k <= 2 * Q) by (unfold k; lia).
  assert (D2 : (q - q') * (q - q') = (2 * Q - k) * (2 * Q - k)).
  { replace (2 * Q - k) with (Z.abs (q - q')) by (unfold k; lia). symmetry. apply Z.abs_square. }
  destruct (Z.eq_dec k 0) as [Z0|Z0].
  - assert (p = p').
    { apply E. assert (q + q' = 0) by lia. replace q' with (- q) by lia. ring. }
    subst p'.
    rewrite D2, Z0, Z.sub_diag. lia.
  - assert (S : Z.abs (q * q - q' * q') <= (2 * Q - k) * k).
    { replace (q * q - q' * q') with ((q - q') * (q + q')) by ring. rewrite Z.abs_mul.
      replace (2 * Q - k) with (Z.abs (q - q')) by (unfold k; lia).
      apply Z.mul_le_mono_nonneg_l; unfold k; lia. }
    set (P := Z.abs (p - p')) in *. assert (P0 : 0 <= P) by (unfold P; lia).
    replace ((p - p') * (p - p')) with (P * P) by (apply Z.abs_square).
    pose proof (moments_gap Q k ltac:(lia)) as G.
    set (s := (2 * Q - k) * k) in *.
    assert (S0 : 0 <= s <= 2 * Q * k).
    { unfold s. split; [apply Z.mul_nonneg_nonneg|apply Z.mul_le_mono_nonneg_r]; lia. }
    assert (B : 4 * (Q * P) <= 4 * s + 5 * Q) by lia.
    assert (B2 : 16 * (Q * Q) * (P * P) <= 16 * (s * s) + 40 * (s * Q) + 25 * (Q * Q)).
    { replace (16 * (Q * Q) * (P * P)) with ((4 * (Q * P)) * (4 * (Q * P))) by ring.
      replace (16 * (s * s) + 40 * (s * Q) + 25 * (Q * Q)) with ((4 * s + 5 * Q) * (4 * s + 5 * Q))
        by ring.
      assert (0 <= 4 * (Q * P)).
      { apply Z.mul_nonneg_nonneg; [lia|]. apply Z.mul_nonneg_nonneg; lia. }
      apply Z.mul_le_mono_nonneg; lia. }
    (* Rounding adds at most 105 k Q^2 of 16 (128 / 13) k Q^3. *)
    assert (R : 40 * (s * Q) + 25 * (Q * Q) <= 105 * (k * (Q * Q))).
    { assert (s * Q <= 2 * Q * k * Q) by (apply Z.mul_le_mono_nonneg_r; lia).
      assert (1 * (Q * Q) <= k * (Q * Q)).
      { apply Z.mul_le_mono_nonneg_r; [apply Z.square_nonneg|lia]. }
      replace (2 * Q * k * Q) with (2 * (k * (Q * Q))) in * by ring. lia. }
    assert (L : 128 * (k * (Q * Q)) <= k * (Q * Q * Q)).
    { replace (k * (Q * Q * Q)) with (Q * (k * (Q * Q))) by ring.
      apply Z.mul_le_mono_nonneg_r; [|lia].
      apply Z.mul_nonneg_nonneg; [lia|apply Z.square_nonneg]. }
    assert (F : Q * Q * (169 * (P * P)) <= Q * Q * (64 * (k * (4 * Q - k)))) by lia.
    apply Z.mul_le_mono_pos_l in F; [|apply Z.mul_pos_pos; lia].
    rewrite D2. lia.
Qed.

(* All d columns; entry j of a row is 8 q_j, entry d + j is 13 p_j: two sums over columns. *)
Theorem moments_columns Q d (q q' p p' : vec) : 128 <= Q ->
  (forall j, (j < d)%nat -> Z.abs (q j) <= Q /\ Z.abs (q' j) <= Q /\
    (q j * q j = q' j * q' j -> p j = p' j) /\
    4 * (Q * Z.abs (p j - p' j)) <= 4 * Z.abs (q j * q j - q' j * q' j) + 5 * Q) ->
  64 * sq d (minus q q') + 169 * sq d (minus p p') <= Z.of_nat d * (256 * (Q * Q)).
Proof.
  intros HQ H. unfold sq. rewrite <- !over_scale, <- over_plus, <- over_const.
  apply over_le. intros j L. destruct (H j L) as (A & B & C & E).
  exact (moments_replaced Q (q j) (q' j) (p j) (p' j) HQ A B C E).
Qed.

(* --- clipping.isqrt_up, and the box ----------------------------------------------------------- *)

(* isqrt_up(v): the least integer whose square is at least v. *)
Definition isqrt_up v := let r := Z.sqrt v in if r * r =? v then r else r + 1.
Theorem isqrt_up_spec v : 0 <= v ->
  v <= isqrt_up v * isqrt_up v /\ 0 <= isqrt_up v /\
  forall s, 0 <= s -> v <= s * s -> isqrt_up v <= s.
Proof.
  intros H. unfold isqrt_up. pose proof (Z.sqrt_spec v H) as [A B]. pose proof (Z.sqrt_nonneg v).
  unfold Z.succ in *.
  destruct (Z.eqb_spec (Z.sqrt v * Z.sqrt v) v); repeat split; try nia; intros; nia.
Qed.

(* Clipping: |q_j| <= half_j gives sum q_j^2 <= norm^2 with norm = isqrt_up(sum half_j^2). *)
Definition clip h x := Z.max (- h) (Z.min h x).
Theorem clip_bound h x : 0 <= h -> Z.abs (clip h x) <= h.
Proof. unfold clip; lia. Qed.
Theorem box_norm d (half q : vec) : (forall j, (j < d)%nat -> Z.abs (q j) <= half j) ->
  sq d q <= isqrt_up (sq d half) * isqrt_up (sq d half).
Proof.
  intros H. destruct (isqrt_up_spec _ (sq_0 d half)) as [A _]. eapply Z.le_trans; [|exact A].
  unfold sq. apply over_le. intros j L. specialize (H j L). nia.
Qed.

(* --- mechanisms.shortened and after_shortening, L1 -------------------------------------------- *)

(* f_t = (f + 2^(t-1)) >> t, the nearest integer to f / 2^t. *)
Definition shortened (t f : Z) := (f + 2 ^ (t - 1)) / 2 ^ t.
Definition after_shortening (D t moved : Z) := - (- D / 2 ^ t) + moved.
Lemma shortened_entry t f g : 0 < t ->
  Z.abs (shortened t f - shortened t g) * 2 ^ t <= Z.abs (f - g) + 2 ^ t - 1.
Proof.
  intros. unfold shortened. set (k := 2 ^ t). set (h := 2 ^ (t - 1)).
  assert (0 < k) by (apply Z.pow_pos_nonneg; lia).
  pose proof (Z.div_mod (f + h) k ltac:(lia)). pose proof (Z.div_mod (g + h) k ltac:(lia)).
  pose proof (Z.mod_pos_bound (f + h) k ltac:(lia)).
  pose proof (Z.mod_pos_bound (g + h) k ltac:(lia)).
  set (a := (f + h) / k) in *. set (b := (g + h) / k) in *.
  destruct (Z.abs_spec (a - b)) as [[_ E]|[_ E]]; rewrite E;
  destruct (Z.abs_spec (f - g)) as [[_ F]|[_ F]]; rewrite F; nia.
Qed.
Theorem shortened_L1 d t (f g : vec) D : 0 < t -> l1 d (minus f g) <= D ->
  l1 d (minus (fun j => shortened t (f j)) (fun j => shortened t (g j)))
    <= after_shortening D t (Z.of_nat d).
Proof.
  intros Ht H. unfold l1, minus, after_shortening in *.
  set (k := 2 ^ t) in *. assert (K : 0 < k) by (apply Z.pow_pos_nonneg; lia).
  assert (A : k * over d (fun j => Z.abs (shortened t (f j) - shortened t (g j))) <=
              over d (fun j => Z.abs (f j - g j) + (k - 1))).
  { rewrite <- over_scale. apply over_le. intros j _.
    pose proof (shortened_entry t (f j) (g j) Ht). fold k in H0. lia. }
  rewrite over_plus, over_const in A.
  pose proof (Z.div_mod (- D) k ltac:(lia)). pose proof (Z.mod_pos_bound (- D) k ltac:(lia)).
  set (x := - D / k) in *. set (y := over d _) in *.
  assert (0 <= Z.of_nat d) by lia. nia.
Qed.
(* --- the same in L2 --------------------------------------------------------------------------- *)

(* Cauchy-Schwarz and the triangle inequality, in integers. *)
Theorem cauchy_schwarz d (u v : vec) :
  over d (fun j => u j * v j) * over d (fun j => u j * v j) <= sq d u * sq d v.
Proof.
  pose proof (sq_0 d u) as U0. pose proof (sq_0 d v) as V0.
  unfold sq in *. induction d; simpl in *; [lia|].
  assert (0 <= over d (fun j => u j * u j)) by apply sq_0.
  assert (0 <= over d (fun j => v j * v j)) by apply sq_0.
  set (S := over d (fun j => u j * v j)) in *. set (U := over d (fun j => u j * u j)) in *.
  set (V := over d (fun j => v j * v j)) in *. specialize (IHd H H0).
  set (a := u d) in *. set (b := v d) in *.
  assert (K : 2 * (S * (a * b)) <= U * (b * b) + V * (a * a)).
  { destruct (Z_le_gt_dec (2 * (S * (a * b))) (U * (b * b) + V * (a * a))) as [L|G]; auto.
    exfalso. set (x := U * (b * b)) in *. set (y := V * (a * a)) in *.
    assert (0 <= x /\ 0 <= y) by (unfold x, y; nia).
    assert (P : (x + y) * (x + y) < 2 * (S * (a * b)) * (2 * (S * (a * b)))) by nia.
    assert (Q : 4 * (x * y) <= (x + y) * (x + y)) by (pose proof (Z.square_nonneg (x - y)); nia).
    assert (R : S * S * ((a * b) * (a * b)) <= U * V * ((a * b) * (a * b))).
    { apply Z.mul_le_mono_nonneg_r; auto. apply Z.square_nonneg. }
    unfold x, y in Q, P. nia. }
  nia.
Qed.
Theorem L2_triangle d (u v : vec) A B : 0 <= A -> 0 <= B ->
  sq d u <= A * A -> sq d v <= B * B -> sq d (fun j => u j + v j) <= (A + B) * (A + B).
Proof.
  intros HA HB U V. pose proof (cauchy_schwarz d u v) as C.
  assert (E : sq d (fun j => u j + v j) = sq d u + 2 * over d (fun j => u j * v j) + sq d v).
  { unfold sq. rewrite <- over_scale, <- !over_plus. apply over_ext; intros; ring. }
  rewrite E. set (s := over d _) in *. pose proof (sq_0 d u). pose proof (sq_0 d v).
  assert (s * s <= (A * B) * (A * B)) by nia. assert (0 <= A * B) by nia.
  assert (s <= A * B) by nia. nia.
Qed.
(* after_shortening(D, t, isqrt_up(entries)) bounds the L2 norm. *)
Theorem shortened_L2 d t (f g : vec) D : 0 < t -> 0 <= D -> sq d (minus f g) <= D * D ->
  let N := after_shortening D t (isqrt_up (Z.of_nat d)) in
  sq d (minus (fun j => shortened t (f j)) (fun j => shortened t (g j))) <= N * N.
Proof.
  intros Ht HD H N. set (k := 2 ^ t). assert (K : 0 < k) by (apply Z.pow_pos_nonneg; lia).
  set (r := isqrt_up (Z.of_nat d)).
  destruct (isqrt_up_spec (Z.of_nat d) ltac:(lia)) as (R1 & R0 & _). fold r in R1, R0.
  set (e := minus (fun j => shortened t (f j)) (fun j => shortened t (g j))).
  assert (A : sq d (fun j => k * e j) <= sq d (fun j => Z.abs (minus f g j) + (k - 1))).
  { unfold sq. apply over_le. intros j _.
    pose proof (shortened_entry t (f j) (g j) Ht) as P. fold k in P. unfold e, minus.
    set (x := shortened t (f j) - shortened t (g j)) in *. set (y := Z.abs (f j - g j)) in *.
    replace (k * x * (k * x)) with ((Z.abs x * k) * (Z.abs x * k)) by nia. nia. }
  assert (B : sq d (fun j => Z.abs (minus f g j) + (k - 1))
              <= (D + r * (k - 1)) * (D + r * (k - 1))).
  { apply (L2_triangle d (fun j => Z.abs (minus f g j)) (fun _ => k - 1)); try nia.
    - unfold sq in *. rewrite (over_ext d _ (fun j => minus f g j * minus f g j)); auto.
      intros; nia.
    - unfold sq. rewrite over_const.
      replace (r * (k - 1) * (r * (k - 1))) with (r * r * ((k - 1) * (k - 1))) by ring.
      apply Z.mul_le_mono_nonneg_r; [apply Z.square_nonneg|auto]. }
  assert (C : sq d (fun j => k * e j) = k * k * sq d e).
  { unfold sq. rewrite <- over_scale. apply over_ext; intros; ring. }
  assert (E : D + r * (k - 1) <= k * N).
  { unfold N, after_shortening. fold k r. pose proof (Z.div_mod (- D) k ltac:(lia)).
    pose proof (Z.mod_pos_bound (- D) k ltac:(lia)). nia. }
  assert (F0 : 0 <= D + r * (k - 1)) by nia.
  assert (F : (D + r * (k - 1)) * (D + r * (k - 1)) <= (k * N) * (k * N))
    by (apply Z.mul_le_mono_nonneg; auto).
  rewrite C in A. assert (G : k * k * sq d e <= k * k * (N * N)) by lia.
  apply Z.mul_le_mono_pos_l with (p := k * k); nia.
Qed.
