(* A pure session, from end to end.

   What is proved: somebody asks a private table for counts, histograms, sums, means and choices,
   one after the other, each chosen by all answers so far.  Each question takes a share of eps, and
   is refused, without an answer, where the shares would exceed 1.  At any time shares may become
   those of what is left.  Whatever is asked, everything that is seen together is
   eps-differentially private for one privacy unit.

   - A sum, a mean, or any statistic with a Spherical sensitivity gets rounded K-norm noise.
   - A count, a histogram, or any statistic with an Independent sensitivity gets discrete Laplace
     noise, or K-norm noise where it says so.
   - Statistics of which each entry moves by little get K-norm noise of the cube (Boxed).
   - All of these may first be shortened by any number of bits that is chosen from public numbers.
   - A choice, or several of one answer, is made by the exponential mechanism.
   - A measurement is any mechanism that is DP for one step; that it is, its own proof must show.

   Scales are those of skdp, as exact numbers: sensitivity over share times eps.  A unit is what a
   table of stability (r, a) takes for one (Stability.v).

   PROOFS.md: "Sums", "Metering", "Stability", "Noise on integers", "Exponential mechanism".
   Modules: skdp/core/session.py, query.py, sums.py, mechanisms.py, privacy_filter.py.
   That these modules compute the functions defined here is not proved; tests/verified compares
   them on stated domains. *)
Require Import Reals Lra Lia ZArith QArith Qreals List.
From Skdp Require Import Sums Privacy Laplace KNorm Choice Stability Queries.
Import ListNotations.
Open Scope R_scope.

Section Session.
(* The caller's tables, and which of them differ by one privacy unit. *)
Variable D : Type.
Variable near : D -> D -> Prop.
Variable eps : R. Hypothesis eps0 : 0 < eps. (* what the session was charged with *)

(* --- what the mechanisms are handed: a statistic, its sensitivity, a share -------------------- *)

(* bits: by how many bits the statistic is shortened, from public numbers. *)
Inductive question :=
| AddLaplace (share : Q) (bits : Z) (d : nat) (f : D -> vec) (size : Z)
| AddKNorm (share : Q) (bits : Z) (d : nat) (f : D -> vec) (size : Z)
| AddCubes (share : Q) (bits : Z) (part : nat -> nat) (part_le : forall j, (part j <= j)%nat)
    (n d : nat) (f : D -> vec) (size : Z)
| Choose (share : Q) (rounds : list (round D)) (size : Z)
| Measure (share : Q) (M : R -> D -> answer -> R). (* by the epsilon that it may lose *)
Definition share_of q := match q with
| AddLaplace s _ _ _ _ => s | AddKNorm s _ _ _ _ => s | AddCubes s _ _ _ _ _ _ _ => s
| Choose s _ _ => s | Measure s _ => s end.
Definition short bits (v : vec) : vec := fun j =>
  if (bits =? 0)%Z then v j else shortened bits (v j).
Definition size_of_short size bits moved :=
  if (bits =? 0)%Z then size else after_shortening size bits moved.

(* The probability of an answer: Independent.noised, Spherical.noised and exponential_mechanism.  e: the
   epsilon of which the share is. *)
Definition mechanism (e : R) q (T : D) (o : answer) : R := match q, o with
| AddLaplace s bits d f size, Numbers v =>
    noise (IZR (size_of_short size bits (Z.of_nat d)) / (Q2R s * e)) d (short bits (f T)) v
| AddKNorm s bits d f size, Numbers v =>
    k_noise euclidean (IZR (size_of_short size bits (isqrt_up (Z.of_nat d))) / (Q2R s * e)) d
            (short bits (f T)) v
| AddCubes s bits part H n d f size, Numbers v =>
    k_noise (box_norm part H) (IZR (size_of_short size bits (Z.of_nat n - 1)) / (Q2R s * e)) d
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
| AddCubes _ bits part _ n d f size => (0 < size)%Z /\ (0 <= bits)%Z /\ (0 < n)%nat /\
    (forall j, (j < d)%nat -> (part j < n)%nat) /\
    forall T U, near T U -> (largestsZ part d (minus (f T) (f U)) <= size)%Z
| Choose _ rounds size => (0 < size)%Z /\ rounds <> [] /\
    (forall q, In q rounds -> choosable q) /\
    forall q, In q rounds -> forall T U, near T U ->
    forall c, (Z.abs (score q U c - score q T c) <= size)%Z
| Measure s M => forall e, 0 < e -> dp D near e (M e) end.

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
  dp D near (Q2R (share_of q) * e) (mechanism e q).
Proof.
  intros e0 [S K]. pose proof (Q2R_pos _ S) as P.
  assert (E : 0 < Q2R (share_of q) * e) by (apply Rmult_lt_0_compat; auto).
  intros T U N o. destruct q as [s bits d f size|s bits d f size|s bits part PL n d f size|s rounds size|s M];
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
  - destruct o; [|lra].
    destruct K3 as (n0 & P0 & K3).
    refine (cube_dp near (fun T => short bits (f T)) part PL d _ (Q2R s * e) _ E _ T U N v).
    + apply short_size_pos; auto. lia.
    + intros x y M. unfold short, size_of_short.
      destruct (Z.eqb_spec bits 0); [apply (K3 x y M)|apply shortened_parts; [lia|auto|auto|auto]].
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
Fixpoint session (part spent : Q) (s : analyst) (T : D) (seen : list (option answer)) : R :=
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
  dp D near ((1 - Q2R spent) * (Q2R part * eps)) (session part spent s).
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
Corollary whole_session_dp s : fair s -> dp D near eps (opened s).
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

(* --- queries of tables that are derived from the caller's ------------------------------------- *)

(* What a session may stand on: the table itself, the rows that a filter leaves, at most so many
   rows of each unit, and so on (Views.v).  It has a stability (r, a). *)
Record view := { row : Type; rows : D -> list row; r : Z; a : Z }.
Definition stable v := (0 <= r v)%Z /\ (0 <= a v)%Z /\ (0 < r v \/ 0 < a v)%Z /\
  forall T U, near T U -> Stability.near (row v) (r v) (a v) (rows v T) (rows v U).
Definition seen_by v (q : round (list (row v))) : round D :=
  {| cands := cands q; multiplicity := multiplicity q; score := fun T => score q (rows v T) |}.
(* What the mechanism is handed: Session.answer and answer_query. *)
Definition asked v share bits (q : query (row v)) : question := match q with
| Independent _ false d phi l1R l1A _ _ =>
    AddLaplace share bits d (fun T => total (row v) phi (rows v T)) (moved (r v) (a v) l1R l1A)
| Independent _ true d phi _ _ sqR sqA =>
    AddKNorm share bits d (fun T => total (row v) phi (rows v T))
      (isqrt_up (Z.max (r v * r v * sqR) (a v * a v * sqA)))
| Spherical _ d phi sizeR sizeA =>
    AddKNorm share bits d (fun T => total (row v) phi (rows v T)) (moved (r v) (a v) sizeR sizeA)
| Boxed _ part H n d phi boxR boxA =>
    AddCubes share bits part H n d (fun T => total (row v) phi (rows v T)) (moved (r v) (a v) boxR boxA)
| Queries.Choice _ rounds sizeR sizeA =>
    Choose share (map (seen_by v) rounds) (moved (r v) (a v) sizeR sizeA)
| Measurement _ M =>
    Measure share (fun e T => M (e / IZR (steps_of_unit (r v) (a v))) (rows v T)) end.
Theorem asked_keeps v share bits q : stable v -> (0 < share)%Q -> (0 <= bits)%Z ->
  well (row v) (a v) q -> keeps (asked v share bits q).
Proof.
  intros (r0 & a0 & ra & V) S B W.
  destruct q as [[|] d phi l1R l1A sqR sqA|d phi sR sA|part PL n d phi sR sA|rounds sR sA|M];
  simpl in W; destruct W as (P & W); (split; [exact S|]); cbn [asked].
  - destruct W as [WR WA]. set (w := Z.max (r v * r v * sqR) (a v * a v * sqA)).
    assert (W0 : (0 < w)%Z) by (unfold w; nia).
    destruct (isqrt_up_spec w ltac:(lia)) as (I & I0 & _). split; [nia|split; auto].
    intros T U N. eapply Z.le_trans; [|exact I].
    apply (total_moves_squares (row v) (r v) (a v)); auto; try lia; intros; [apply WR|apply WA].
  - destruct W as [WR WA]. split; [apply moved_pos; tauto|split; auto]. intros T U N.
    apply (total_moves_L1 (row v) (r v) (a v)); auto; try lia; intros; [apply WR|apply WA].
  - destruct W as [WR WA]. split; [apply moved_pos; tauto|split; auto]. intros T U N.
    apply (total_moves_L2 (row v) (r v) (a v)); auto; lia.
  - destruct W as (n0 & P0 & WR & WA). split; [apply moved_pos; tauto|].
    split; [auto|split; [auto|split; [auto|]]]. intros T U N.
    apply (total_moves_parts (row v) (r v) (a v)); auto; lia.
  - destruct W as [NE W]. split; [apply moved_pos; tauto|].
    split; [intros E; apply map_eq_nil in E; auto|]. split.
    + intros q I. apply in_map_iff in I. destruct I as (p & <- & I). apply W in I. apply I.
    + intros q I T U N c. apply in_map_iff in I. destruct I as (p & <- & I). simpl.
      destruct (W p I) as [_ M]. destruct (M c) as [MR MA].
      apply (score_moves (row v) (r v) (a v) r0 a0 (fun T => score p T c)); auto; lia.
  - assert (K : (0 < steps_of_unit (r v) (a v))%Z).
    { unfold steps_of_unit. destruct (Z.eqb_spec (a v) 0); lia. }
    intros e E T U N. apply (unit_dp (row v) (r v) (a v)); auto; [lra|].
    apply W. apply Rdiv_lt_0_compat; auto. apply IZR_lt; auto.
Qed.

(* --- the sentence ----------------------------------------------------------------------------- *)

(* A strategy that asks queries that keep what they have to, of stable views, at any share above 0
   and shortened by any number of bits. *)
Fixpoint asks_queries s := match s with
| Leave => True
| Put q k n =>
    (exists v share bits p, stable v /\ (0 < share)%Q /\ (0 <= bits)%Z /\
       well (row v) (a v) p /\ q = asked v share bits p)
    /\ (forall o, asks_queries (k o)) /\ asks_queries n
| KeepRest k n => asks_queries k /\ asks_queries n end.
Lemma queries_are_fair s : asks_queries s -> fair s.
Proof.
  induction s as [|q k IHk n IHn|k IHk n IHn]; simpl; auto; [|tauto].
  intros ((v & share & bits & p & V & S & B & W & ->) & K & N).
  split; [apply asked_keeps; auto|]. split; auto.
Qed.
Theorem session_of_queries_dp s : asks_queries s -> dp D near eps (opened s).
Proof. intros H. apply whole_session_dp, queries_are_fair; auto. Qed.
(* The same for events: any countable set of what may be seen. *)
Corollary session_of_queries_event s T U (S : nat -> list (option answer)) p q :
  asks_queries s -> near T U ->
  infinit_sum (fun i => opened s T (S i)) p -> infinit_sum (fun i => opened s U (S i)) q ->
  p <= exp eps * q.
Proof.
  intros A N P Q.
  apply (dp_countable D near eps (opened s) T U S); auto. apply session_of_queries_dp; auto.
Qed.
End Session.
