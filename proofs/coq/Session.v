(* A pure session, from end to end.

   What is proved: somebody asks a private table for counts, histograms, sums, means and choices,
   one after the other, each chosen by all answers so far.  Each question takes a share of eps, and
   is refused, without an answer, where the shares would exceed 1.  At any time shares may become
   those of what is left.  Whatever is asked, everything that is seen together is
   eps-differentially private for one privacy unit.

   - A sum, a mean, or any statistic with a Spherical sensitivity gets rounded K-norm noise.
   - A count, a histogram, or any statistic with an Independent sensitivity gets discrete Laplace
     noise, or K-norm noise where it says so.
   - Both kinds may first be shortened by any number of bits that is chosen from public numbers.
   - A choice, or several of one answer, is made by the exponential mechanism.
   - A measurement is any mechanism that is DP for one step; that it is, its own proof must show.

   Scales are those of skdp, as exact numbers: sensitivity over share times eps.  A unit is what a
   table of stability (r, a) takes for one (Stability.v).

   PROOFS.md: "Sums", "Metering", "Stability", "Noise on integers", "Exponential mechanism".
   Modules: skdp/core/session.py, query.py, sums.py, mechanisms.py, privacy_filter.py.
   That these modules compute the functions defined here is not proved; tests/verified compares
   them on stated domains. *)
Require Import Reals Lra Lia ZArith QArith Qreals List.
From Skdp Require Import Sums Privacy Laplace KNorm Choice Stability.
Import ListNotations.
Open Scope R_scope.

Section Session.
Variable Row : Type.
Notation table := (list Row).
Variables r a : Z. (* the stability of the table *)
Hypothesis r0 : (0 <= r)%Z. Hypothesis a0 : (0 <= a)%Z.
Hypothesis some_row : (0 < r \/ 0 < a)%Z.
Notation near := (near Row r a).
Variable eps : R. Hypothesis eps0 : 0 < eps. (* what the session was charged with *)

(* --- what the mechanisms are handed: a statistic, its sensitivity for a unit, a share --------- *)

Inductive answer := Numbers (v : vec) | Chosen (c : list nat).
(* bits: by how many bits the statistic is shortened, from public numbers. *)
Inductive question :=
| AddLaplace (share : Q) (bits : Z) (d : nat) (f : table -> vec) (size : Z)
| AddKNorm (share : Q) (bits : Z) (d : nat) (f : table -> vec) (size : Z)
| Choose (share : Q) (rounds : list (round table)) (size : Z)
| Measure (share : Q) (M : R -> table -> answer -> R). (* by the epsilon that it may lose *)
Definition share_of q := match q with
| AddLaplace s _ _ _ _ => s | AddKNorm s _ _ _ _ => s | Choose s _ _ => s | Measure s _ => s end.
Definition short bits (v : vec) : vec := fun j =>
  if (bits =? 0)%Z then v j else shortened bits (v j).
Definition size_of_short size bits moved :=
  if (bits =? 0)%Z then size else after_shortening size bits moved.

(* The probability of an answer: independent_noise, l2_noise and exponential_mechanism.  e: the
   epsilon of which the share is. *)
Definition mechanism (e : R) q (T : table) (o : answer) : R := match q, o with
| AddLaplace s bits d f size, Numbers v =>
    noise (IZR (size_of_short size bits (Z.of_nat d)) / (Q2R s * e)) d (short bits (f T)) v
| AddKNorm s bits d f size, Numbers v =>
    k_noise (IZR (size_of_short size bits (isqrt_up (Z.of_nat d))) / (Q2R s * e)) d
            (short bits (f T)) v
| Choose s rounds size, Chosen c =>
    choose_all (Q2R s * e / INR (length rounds)) size rounds T c
| Measure s M, _ => M (Q2R s * e) T o
| _, _ => 0 end.

(* What a question has to keep: the statistic moves by no more than it says. *)
Definition keeps q := (0 < share_of q)%Q /\ match q with
| AddLaplace _ bits d f size => (0 < size)%Z /\ (0 <= bits)%Z /\
    forall T U, near T U -> (l1 d (minus (f T) (f U)) <= size)%Z
| AddKNorm _ bits d f size => (0 < size)%Z /\ (0 <= bits)%Z /\
    forall T U, near T U -> (sq d (minus (f T) (f U)) <= size * size)%Z
| Choose _ rounds size => (0 < size)%Z /\ rounds <> [] /\
    (forall q, In q rounds -> choosable q) /\
    forall q, In q rounds -> forall T U, near T U ->
    forall c, (Z.abs (score q U c - score q T c) <= size)%Z
| Measure s M => forall e, 0 < e -> dp table near e (M e) end.

Lemma Q2R_pos s : (0 < s)%Q -> 0 < Q2R s.
Proof. intros H. rewrite <- RMicromega.Q2R_0. apply Qlt_Rlt; auto. Qed.
Lemma short_size_pos size bits moved : (0 < size)%Z -> (0 <= bits)%Z -> (0 <= moved)%Z ->
  (0 < size_of_short size bits moved)%Z.
Proof.
  intros S B M. unfold size_of_short, after_shortening. destruct (Z.eqb_spec bits 0); auto.
  assert (0 < 2 ^ bits)%Z by (apply Z.pow_pos_nonneg; lia).
  pose proof (Z.div_mod (- size) (2 ^ bits) ltac:(lia)).
  pose proof (Z.mod_pos_bound (- size) (2 ^ bits) ltac:(lia)). nia.
Qed.
Theorem mechanism_dp e q : 0 < e -> keeps q ->
  dp table near (Q2R (share_of q) * e) (mechanism e q).
Proof.
  intros e0 [S K]. pose proof (Q2R_pos _ S) as P.
  assert (E : 0 < Q2R (share_of q) * e) by (apply Rmult_lt_0_compat; auto).
  intros T U N o. destruct q as [s bits d f size|s bits d f size|s rounds size|s M];
  simpl in *; try destruct K as (K1 & K2 & K3).
  - destruct o; [|lra].
    refine (laplace_dp near (fun T => short bits (f T)) d _ (Q2R s * e) _ E _ T U N v).
    + apply short_size_pos; auto. lia.
    + intros x y M. unfold short, size_of_short.
      destruct (Z.eqb_spec bits 0); [apply (K3 x y M)|apply shortened_L1; [lia|auto]].
  - destruct o; [|lra].
    destruct (isqrt_up_spec (Z.of_nat d) ltac:(lia)) as (_ & I & _).
    refine (k_norm_dp near (fun T => short bits (f T)) d _ (Q2R s * e) _ E _ T U N v).
    + apply short_size_pos; auto.
    + intros x y M. unfold short, size_of_short.
      destruct (Z.eqb_spec bits 0); [apply (K3 x y M)|apply shortened_L2; auto; lia].
  - destruct o; [lra|]. destruct K3 as [K3 K4].
    assert (L : 0 < INR (length rounds)).
    { apply lt_0_INR. destruct rounds; [contradiction|simpl; lia]. }
    set (each := Q2R s * e / INR (length rounds)).
    assert (each0 : 0 < each) by (apply Rdiv_lt_0_compat; auto).
    replace (Q2R s * e) with (INR (length rounds) * each) by (unfold each; field; lra).
    apply (choices_dp near size each rounds); auto.
  - apply K; auto.
Qed.

(* --- a session: any strategy ------------------------------------------------------------------ *)

(* Somebody who asks, and goes on by the answer, or by the refusal; or who lets shares be of what is
   left from now on (PrivacyFilter._keep_rest), which is refused where nothing is left. *)
Inductive analyst :=
| Leave
| Put (q : question) (answered : answer -> analyst) (refused : analyst)
| KeepRest (kept refused : analyst).
Fixpoint fair s := match s with
| Leave => True
| Put q k n => keeps q /\ (forall o, fair (k o)) /\ fair n
| KeepRest k n => fair k /\ fair n end.
(* The filter: `if spent + share > 1: refuse`, else `spent += share`; shares are of a part of eps,
   at first of all of it.  What is seen is a list of answers and refusals (None); this is the
   probability to see it. *)
Fixpoint session (part spent : Q) (s : analyst) (T : table) (seen : list (option answer)) : R :=
  match s with
  | Leave => match seen with [] => 1 | _ => 0 end
  | Put q k n => if Qlt_le_dec 1 (spent + share_of q)
      then match seen with None :: more => session part spent n T more | _ => 0 end
      else match seen with
           | Some o :: more => mechanism (Q2R part * eps) q T o
                               * session part (spent + share_of q) (k o) T more
           | _ => 0 end
  | KeepRest k n => if Qlt_le_dec spent 1 then session (part * (1 - spent)) 0 k T seen
      else match seen with None :: more => session part spent n T more | _ => 0 end end.
Lemma Q2R_le_1 q : (q <= 1)%Q -> Q2R q <= 1.
Proof. intros H. rewrite <- RMicromega.Q2R_1. apply Qle_Rle; auto. Qed.
Lemma rest_pos part spent : (0 < part)%Q -> (spent < 1)%Q -> (0 < part * (1 - spent))%Q.
Proof.
  intros P L. apply Qmult_lt_0_compat; auto. apply Qlt_minus_iff in L. exact L.
Qed.
Lemma Q2R_rest part spent : Q2R (part * (1 - spent)) = Q2R part * (1 - Q2R spent).
Proof. rewrite Q2R_mult, Q2R_minus, RMicromega.Q2R_1. reflexivity. Qed.
Theorem session_dp s : fair s -> forall part spent, (0 < part)%Q -> (spent <= 1)%Q ->
  dp table near ((1 - Q2R spent) * (Q2R part * eps)) (session part spent s).
Proof.
  induction s as [|q k IHk n IHn|k IHk n IHn]; simpl; intros F part spent P L T U N seen;
  pose proof (Q2R_pos _ P) as P'; pose proof (Q2R_le_1 _ L) as L';
  assert (e0 : 0 < Q2R part * eps) by (apply Rmult_lt_0_compat; auto).
  - pose proof (exp_ge_1 ((1 - Q2R spent) * (Q2R part * eps)) ltac:(apply Rmult_le_pos; lra)).
    destruct seen; lra.
  - destruct F as (K & Fk & Fn). destruct (Qlt_le_dec 1 (spent + share_of q)) as [G|G].
    + destruct seen as [|[o|] more]; try lra. apply IHn; auto.
    + destruct seen as [|[o|] more]; try lra.
      destruct (mechanism_dp (Q2R part * eps) q e0 K T U N o) as [P1 P2].
      destruct (IHk o (Fk o) part (spent + share_of q)%Q P G T U N more) as [Q1 Q2].
      split; [nra|]. rewrite Q2R_plus in Q2.
      replace (exp ((1 - Q2R spent) * (Q2R part * eps))) with
        (exp (Q2R (share_of q) * (Q2R part * eps))
         * exp ((1 - (Q2R spent + Q2R (share_of q))) * (Q2R part * eps)))
        by (rewrite <- exp_plus; f_equal; ring).
      set (x := exp (Q2R (share_of q) * _)) in *. set (y := exp ((1 - _) * _)) in *.
      set (m := mechanism _ q U o) in *. set (w := session _ _ _ U _) in *.
      replace (x * y * (m * w)) with ((x * m) * (y * w)) by ring. apply Rmult_le_compat; auto.
  - destruct F as [Fk Fn]. destruct (Qlt_le_dec spent 1) as [G|G].
    + pose proof (IHk Fk _ 0%Q (rest_pos part spent P G) ltac:(discriminate) T U N seen) as H.
      rewrite Q2R_rest, RMicromega.Q2R_0 in H.
      replace ((1 - 0) * (Q2R part * (1 - Q2R spent) * eps))
        with ((1 - Q2R spent) * (Q2R part * eps)) in H by ring. exact H.
    + destruct seen as [|[o|] more]; try lra. apply IHn; auto.
Qed.
(* A session as it is opened. *)
Definition opened := session 1 0.
Corollary whole_session_dp s : fair s -> dp table near eps (opened s).
Proof.
  intros F. pose proof (session_dp s F 1%Q 0%Q ltac:(reflexivity) ltac:(discriminate)) as H.
  rewrite RMicromega.Q2R_0, RMicromega.Q2R_1 in H.
  replace ((1 - 0) * (1 * eps)) with eps in H by ring. exact H.
Qed.

(* --- the arithmetic of the filter, pure and Gaussian ------------------------------------------ *)

(* Of all that was charged: the shares of the questions that were answered. *)
Fixpoint taken (part spent : Q) (s : analyst) (seen : list (option answer)) : list Q :=
  match s with
  | Leave => []
  | Put q k n => if Qlt_le_dec 1 (spent + share_of q)
      then match seen with None :: more => taken part spent n more | _ => [] end
      else match seen with
           | Some o :: more => (part * share_of q)%Q :: taken part (spent + share_of q) (k o) more
           | _ => [] end
  | KeepRest k n => if Qlt_le_dec spent 1 then taken (part * (1 - spent)) 0 k seen
      else match seen with None :: more => taken part spent n more | _ => [] end end.
Theorem shares_fit s : forall part spent, (0 < part)%Q -> (spent <= 1)%Q -> forall seen,
  sumR Q2R (taken part spent s seen) <= Q2R part * (1 - Q2R spent).
Proof.
  induction s as [|q k IHk n IHn|k IHk n IHn]; intros part spent P L seen; cbn [taken];
  pose proof (Q2R_pos _ P) as P'; pose proof (Q2R_le_1 _ L) as L';
  assert (B : 0 <= Q2R part * (1 - Q2R spent)) by (apply Rmult_le_pos; lra).
  - exact B.
  - destruct (Qlt_le_dec 1 (spent + share_of q)) as [G|G];
    destruct seen as [|[o|] more]; try exact B.
    + apply IHn; auto.
    + pose proof (IHk o part _ P G more) as H. rewrite Q2R_plus in H.
      unfold sumR in *. simpl. rewrite Q2R_mult. lra.
  - destruct (Qlt_le_dec spent 1) as [G|G].
    + pose proof (IHk _ 0%Q (rest_pos part spent P G) ltac:(discriminate) seen) as H.
      rewrite Q2R_rest, RMicromega.Q2R_0 in H. lra.
    + destruct seen as [|[o|] more]; try exact B. apply IHn; auto.
Qed.
(* A Gaussian session: a share s may lose sqrt(s) mu.  The squares of what is taken are within mu^2,
   for every strategy.  (That this makes all releases together mu-GDP stays on paper.) *)
Theorem squares_fit s mu seen : (forall q, In q (taken 1 0 s seen) -> (0 <= q)%Q) ->
  sumR (fun q => (sqrt (Q2R q) * mu) * (sqrt (Q2R q) * mu)) (taken 1 0 s seen) <= mu * mu.
Proof.
  intros P. pose proof (shares_fit s 1%Q 0%Q ltac:(reflexivity) ltac:(discriminate) seen) as H.
  rewrite RMicromega.Q2R_0, RMicromega.Q2R_1 in H.
  apply Rle_trans with (sumR (fun q => mu * mu * Q2R q) (taken 1 0 s seen)).
  - apply sumR_le. intros q I. apply P, Qle_Rle in I. rewrite RMicromega.Q2R_0 in I.
    pose proof (sqrt_sqrt _ I). nra.
  - rewrite sumR_scale. pose proof (Rle_0_sqr mu) as M. unfold Rsqr in M. nra.
Qed.

(* --- the queries of skdp ---------------------------------------------------------------------- *)

(* A row map with its bounds for a replaced row (R), and for one added or removed (A). *)
Inductive query :=
| Independent (or_spherical : bool) (d : nat) (phi : Row -> vec) (l1R l1A sqR sqA : Z)
| Spherical (d : nat) (phi : Row -> vec) (sizeR sizeA : Z)
| Choice (rounds : list (round table)) (sizeR sizeA : Z)
| Measurement (M : R -> table -> answer -> R).
Definition well q := match q with
| Independent _ d phi l1R l1A sqR sqA =>
    (0 < l1R /\ 0 < l1A /\ 0 < sqR /\ 0 < sqA)%Z /\
    (forall x y, l1 d (minus (phi x) (phi y)) <= l1R /\ sq d (minus (phi x) (phi y)) <= sqR)%Z /\
    (forall x, l1 d (phi x) <= l1A /\ sq d (phi x) <= sqA)%Z
| Spherical d phi sizeR sizeA => (0 < sizeR /\ 0 < sizeA)%Z /\
    (forall x y, sq d (minus (phi x) (phi y)) <= sizeR * sizeR)%Z /\
    (forall x, sq d (phi x) <= sizeA * sizeA)%Z
| Choice rounds sizeR sizeA => (0 < sizeR /\ 0 < sizeA)%Z /\ rounds <> [] /\
    forall q, In q rounds -> choosable q /\ forall c,
    (forall T U, replace_one Row T U -> (Z.abs (score q T c - score q U c) <= sizeR)%Z) /\
    (forall T U, add_or_remove Row T U -> (Z.abs (score q T c - score q U c) <= sizeA)%Z)
| Measurement M => (forall e T o, 0 <= M e T o) /\
    forall e, 0 < e -> dp table (step Row a) e (M e) end.
(* query.moved_by, and what the mechanism is handed then. *)
Definition moved sizeR sizeA := Z.max (r * sizeR) (a * sizeA).
Definition asked share bits q := match q with
| Independent false d phi l1R l1A _ _ =>
    AddLaplace share bits d (total Row phi) (moved l1R l1A)
| Independent true d phi _ _ sqR sqA =>
    AddKNorm share bits d (total Row phi) (isqrt_up (Z.max (r * r * sqR) (a * a * sqA)))
| Spherical d phi sizeR sizeA =>
    AddKNorm share bits d (total Row phi) (moved sizeR sizeA)
| Choice rounds sizeR sizeA => Choose share rounds (moved sizeR sizeA)
| Measurement M => Measure share (fun e => M (e / IZR (steps_of_unit r a))) end.
Lemma moved_pos x y : (0 < x)%Z -> (0 < y)%Z -> (0 < moved x y)%Z.
Proof. unfold moved. nia. Qed.
Theorem asked_keeps share bits q : (0 < share)%Q -> (0 <= bits)%Z -> well q ->
  keeps (asked share bits q).
Proof.
  intros S B W. destruct q as [[|] d phi l1R l1A sqR sqA|d phi sR sA|rounds sR sA|M];
  simpl in W; destruct W as (P & W); (split; [exact S|]); cbn [asked].
  - destruct W as [WR WA]. set (v := Z.max (r * r * sqR) (a * a * sqA)).
    assert (V : (0 < v)%Z) by (unfold v; nia).
    destruct (isqrt_up_spec v ltac:(lia)) as (I & I0 & _). split; [nia|split; auto].
    intros T U N. eapply Z.le_trans; [|exact I].
    apply (total_moves_squares Row r a); auto; try lia; intros; [apply WR|apply WA].
  - destruct W as [WR WA]. split; [apply moved_pos; tauto|split; auto].
    apply (total_moves_L1 Row r a); auto; try lia; intros; [apply WR|apply WA].
  - destruct W as [WR WA]. split; [apply moved_pos; tauto|split; auto].
    apply (total_moves_L2 Row r a); auto; lia.
  - destruct W as [NE W]. split; [apply moved_pos; tauto|split; auto]. split.
    + intros q I. apply W; auto.
    + intros q I T U N c. destruct (W q I) as [_ M]. destruct (M c) as [MR MA].
      apply (score_moves Row r a r0 a0 (fun T => score q T c)); auto; lia.
  - assert (K : (0 < steps_of_unit r a)%Z).
    { unfold steps_of_unit. destruct (Z.eqb_spec a 0); lia. }
    intros e E. apply (unit_dp Row r a); auto; [lra|]. apply W. apply Rdiv_lt_0_compat; auto.
    apply IZR_lt; auto.
Qed.

(* sums.Count, queries.histograms, sums.Sum, sums.Mean: their sensitivities hold. *)
Definition count := Independent false 1 (fun _ _ => 1%Z) 1 1 1 1.
Theorem count_well : well count.
Proof.
  unfold count, well, l1, sq, minus; simpl. split; [lia|]. split; intros; lia.
Qed.
(* A row adds one to one bin of each of so many histograms side by side. *)
Definition histogram or_spherical d parts (bins : Row -> vec) :=
  Independent or_spherical d bins (2 * parts) parts (2 * parts) parts.
Theorem histogram_well or_spherical d parts bins : (0 < parts)%Z ->
  (forall x j, bins x j = 0 \/ bins x j = 1)%Z -> (forall x, l1 d (bins x) <= parts)%Z ->
  well (histogram or_spherical d parts bins).
Proof.
  intros P B L.
  assert (D : forall x y, (l1 d (minus (bins x) (bins y)) <= 2 * parts)%Z).
  { intros x y. pose proof (L x). pose proof (L y). unfold l1 in *.
    assert (over d (fun j => Z.abs (minus (bins x) (bins y) j))
            <= over d (fun j => Z.abs (bins x j) + Z.abs (bins y j)))%Z
      by (apply over_le; intros; unfold minus; lia).
    rewrite over_plus in *. lia. }
  unfold histogram, well. split; [lia|]. split.
  - intros x y. split; [apply D|]. eapply Z.le_trans; [|apply (D x y)]. unfold sq, l1.
    apply over_le. intros j _. unfold minus.
    destruct (B x j) as [-> | ->], (B y j) as [-> | ->]; simpl; lia.
  - intros x. split; [apply L|]. eapply Z.le_trans; [|apply (L x)]. unfold sq, l1.
    apply over_le. intros j _. destruct (B x j) as [-> | ->]; simpl; lia.
Qed.
(* sums.sum_sensitivity; weight 0: without a count. *)
Definition sum_R norm := Z.max 1 (2 * norm).
Definition sum_A weight norm := Z.max 1 (isqrt_up (weight * weight + norm * norm)).
Lemma sum_A_bound weight norm :
  (weight * weight + norm * norm <= sum_A weight norm * sum_A weight norm)%Z.
Proof.
  destruct (isqrt_up_spec (weight * weight + norm * norm) ltac:(nia)) as (A & B & _).
  unfold sum_A. nia.
Qed.
Definition sum d phi norm := Spherical d phi (sum_R norm) (sum_A 0 norm).
Theorem sum_well d phi norm : (0 <= norm)%Z -> (forall x, sq d (phi x) <= norm * norm)%Z ->
  well (sum d phi norm).
Proof.
  intros N B. unfold sum, well. split; [unfold sum_R, sum_A; lia|]. split.
  - intros x y. eapply Z.le_trans; [apply (ball_diameter d norm); auto|]. unfold sum_R. nia.
  - intros x. pose proof (B x). pose proof (sum_A_bound 0 norm). lia.
Qed.
(* counted: where the number of rows is private, weight * n is an entry of the vector. *)
Definition mean (counted : bool) d phi norm weight :=
  if counted then Spherical (S d) (with_count weight d phi) (sum_R norm) (sum_A weight norm)
  else Spherical d phi (sum_R norm) (sum_A weight norm).
Theorem mean_well counted d phi norm weight : (0 <= norm)%Z ->
  (forall x, sq d (phi x) <= norm * norm)%Z -> well (mean counted d phi norm weight).
Proof.
  intros N B. pose proof (sum_A_bound weight norm) as A. destruct counted; unfold mean, well;
  (split; [unfold sum_R, sum_A; lia|]); split.
  - intros x y. eapply Z.le_trans; [apply (with_count_replaced weight d phi norm); auto|].
    unfold sum_R. nia.
  - intros x. pose proof (with_count_bound weight d phi norm x (B x)). lia.
  - intros x y. eapply Z.le_trans; [apply (ball_diameter d norm); auto|]. unfold sum_R. nia.
  - intros x. pose proof (B x). nia.
Qed.

(* --- the sentence ----------------------------------------------------------------------------- *)

(* A strategy that asks queries whose row maps keep their bounds, at any share above 0 and shortened
   by any number of bits. *)
Fixpoint asks_queries s := match s with
| Leave => True
| Put q k n =>
    (exists share bits p, (0 < share)%Q /\ (0 <= bits)%Z /\ well p /\ q = asked share bits p)
    /\ (forall o, asks_queries (k o)) /\ asks_queries n
| KeepRest k n => asks_queries k /\ asks_queries n end.
Lemma queries_are_fair s : asks_queries s -> fair s.
Proof.
  induction s as [|q k IHk n IHn|k IHk n IHn]; simpl; auto; [|tauto].
  intros ((share & bits & p & S & B & W & ->) & K & N).
  split; [apply asked_keeps; auto|]. split; auto.
Qed.
Theorem session_of_queries_dp s : asks_queries s -> dp table near eps (opened s).
Proof. intros H. apply whole_session_dp, queries_are_fair; auto. Qed.
(* The same for events: any countable set of what may be seen. *)
Corollary session_of_queries_event s T U (S : nat -> list (option answer)) p q :
  asks_queries s -> near T U ->
  infinit_sum (fun i => opened s T (S i)) p -> infinit_sum (fun i => opened s U (S i)) q ->
  p <= exp eps * q.
Proof.
  intros A N P Q.
  apply (dp_countable table near eps (opened s) T U S); auto. apply session_of_queries_dp; auto.
Qed.
End Session.
