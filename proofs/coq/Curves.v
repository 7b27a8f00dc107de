(* The adaptive filter for privacy levels that are curves, as in Gaussian differential privacy.

   A level v stands for a curve h v: two distributions P and Q are within v where, for every event E
   and every factor alpha, P(E) - alpha Q(E) <= h v alpha.  With alpha = e^eps this is
   (eps, h v (e^eps))-differential privacy.  For mu-GDP, v = mu^2 and h v is the curve of the normal
   distributions N(mu, 1) and N(0, 1).

   What is proved: if two releases compose (`two`, below), then so do any number of them, chosen by
   all answers so far, with refusals: whatever the strategy, all that is seen together is within the
   level that the filter was opened with, as levels add up.

   What is assumed: `two`, and that h is at least the curve of equal distributions.  For Gaussian
   curves both are known (Dong, Roth & Su 2022, Theorem 3.2 and Corollary 3.3), and not proved here.
   For pure DP, `pure_two` proves `two`.  For curves of finite pairs of distributions, `pairs_two`
   proves that two curves compose to that of the product of the pairs.

   PROOFS.md: "Metering".  Module: skdp/core/privacy_filter.py. *)
Require Import Reals Lra Lia List Psatz.
From Skdp Require Import Privacy.
Import ListNotations.
Open Scope R_scope.

(* --- sums over lists -------------------------------------------------------------------------- *)

Lemma sumR_ext {A} (f g : A -> R) l : (forall x, In x l -> f x = g x) -> sumR f l = sumR g l.
Proof. intros H. apply Rle_antisym; apply sumR_le; intros; rewrite H by auto; lra. Qed.
Lemma sumR_plus {A} (f g : A -> R) l : sumR (fun x => f x + g x) l = sumR f l + sumR g l.
Proof. unfold sumR. induction l; simpl; [lra|]. rewrite IHl. lra. Qed.
Lemma sumR_0 {A} l : sumR (fun _ : A => 0) l = 0.
Proof. unfold sumR. induction l; simpl; [lra|]. rewrite IHl. lra. Qed.
Lemma sumR_cons {A} (f : A -> R) x l : sumR f (x :: l) = f x + sumR f l.
Proof. reflexivity. Qed.
(* One entry of a list without repetitions. *)
Lemma sumR_one {A} (eqA : forall a b : A, {a = b} + {a <> b}) a c l : NoDup l ->
  sumR (fun x => if eqA x a then c else 0) l = if in_dec eqA a l then c else 0.
Proof.
  induction l as [|x l IH]; intros N; [reflexivity|]. inversion N; subst.
  rewrite sumR_cons, IH by auto. destruct (eqA x a) as [->|E].
  - destruct (in_dec eqA a l); [contradiction|].
    destruct (in_dec eqA a (a :: l)) as [|F]; [lra|]. exfalso; apply F; simpl; auto.
  - destruct (in_dec eqA a l), (in_dec eqA a (x :: l)) as [J|J]; try lra.
    + exfalso; apply J; simpl; auto.
    + destruct J; [contradiction|]. contradiction.
Qed.

(* --- the filter ------------------------------------------------------------------------------- *)

Section Filter.
Variables (D : Type) (near : D -> D -> Prop).
Variables (O : Type) (eqO : forall a b : O, {a = b} + {a <> b}). (* outcomes *)
Variable h : R -> R -> R.
Definition within {X} v (P Q : X -> R) := forall alpha, 0 <= alpha -> forall S, NoDup S ->
  sumR (fun x => P x - alpha * Q x) S <= h v alpha.
(* A second release of level w after an outcome with the probabilities p and q. *)
Definition after w alpha p q := if Req_EM_T p 0 then 0 else p * h w (alpha * q / p).
Hypothesis two : forall v w (P Q : O -> R), 0 <= v -> 0 <= w ->
  (forall o, 0 <= P o) -> (forall o, 0 <= Q o) -> within v P Q ->
  forall alpha, 0 <= alpha -> forall S, NoDup S ->
  sumR (fun o => after w alpha (P o) (Q o)) S <= h (v + w) alpha.
Hypothesis least : forall v alpha, 0 <= v -> 0 <= alpha ->
  0 <= h v alpha /\ 1 - alpha <= h v alpha.

Notation seen := (list (option O)).
Fixpoint sound (s : strategy D O) : Prop := match s with
  | Stop _ _ => True
  | Ask _ _ v M k r => 0 <= v /\ (forall T o, 0 <= M T o) /\
      (forall T U, near T U -> within v (M T) (M U)) /\ (forall o, sound (k o)) /\ sound r end.
Lemma run_pos s T : sound s -> forall left x, 0 <= run D O left s T x.
Proof.
  induction s as [|v M k IHk r IHr]; simpl; intros H left x.
  - destruct x; lra.
  - destruct H as (_ & HM & _ & Hk & Hr). destruct (Rle_dec v left);
    destruct x as [|[o|] x]; try lra; auto. apply Rmult_le_pos; auto.
Qed.

(* Transcripts by their first entry: what follows it. *)
Definition same_first : forall x y : option O, {x = y} + {x <> y}.
Proof. decide equality. Qed.
Fixpoint tails (y : option O) (S : list seen) : list seen := match S with
  | [] => []
  | [] :: more => tails y more
  | (z :: rest) :: more => if same_first z y then rest :: tails y more else tails y more end.
Lemma in_tails y m S : In m (tails y S) -> In (y :: m) S.
Proof.
  induction S as [|[|z x] S IH]; simpl; auto. destruct (same_first z y) as [->|N]; simpl; auto.
  intros [->|I]; auto.
Qed.
Lemma tails_once y S : NoDup S -> NoDup (tails y S).
Proof.
  induction S as [|[|z x] S IH]; simpl; intros N; inversion N; subst; auto.
  destruct (same_first z y) as [->|E]; auto. constructor; auto. intros I. apply in_tails in I. auto.
Qed.
Fixpoint firsts (S : list seen) : list O := match S with
  | [] => []
  | (Some o :: _) :: more => o :: firsts more
  | _ :: more => firsts more end.
Lemma grouped (F : seen -> R) S H : (forall x, F (None :: x) = 0) -> F [] = 0 ->
  NoDup H -> incl (firsts S) H ->
  sumR F S = sumR (fun o => sumR (fun m => F (Some o :: m)) (tails (Some o) S)) H.
Proof.
  intros F0 F1 N. induction S as [|x S IH]; intros I.
  - simpl. symmetry. apply sumR_0.
  - rewrite sumR_cons. destruct x as [|[a|] x]; simpl in I.
    + rewrite IH, F1 by auto. simpl tails. lra.
    + assert (Ia : In a H) by (apply I; simpl; auto).
      rewrite IH by (intros b B; apply I; simpl; auto).
      rewrite (sumR_ext
        (fun o => sumR (fun m => F (Some o :: m)) (tails (Some o) ((Some a :: x) :: S)))
        (fun o => sumR (fun m => F (Some o :: m)) (tails (Some o) S)
                  + (if eqO o a then F (Some a :: x) else 0))).
      * rewrite sumR_plus, (sumR_one eqO) by auto.
        destruct (in_dec eqO a H); [lra|contradiction].
      * intros o _. simpl tails. destruct (same_first (Some a) (Some o)) as [E|E].
        -- injection E as ->. rewrite sumR_cons. destruct (eqO o o); [lra|contradiction].
        -- destruct (eqO o a) as [->|]; [contradiction|lra].
    + rewrite IH, F0 by auto. simpl tails.
      rewrite (sumR_ext
        (fun o => sumR (fun m => F (Some o :: m)) (tails (Some o) ((None :: x) :: S)))
        (fun o => sumR (fun m => F (Some o :: m)) (tails (Some o) S))); [lra|].
      intros o _. simpl tails. destruct (same_first None (Some o)); [discriminate|reflexivity].
Qed.
(* Where the filter has refused, all transcripts begin with a refusal. *)
Lemma refused_first (F : seen -> R) S : (forall o x, F (Some o :: x) = 0) -> F [] = 0 ->
  sumR F S = sumR (fun m => F (None :: m)) (tails None S).
Proof.
  intros F0 F1. induction S as [|[|[a|] x] S IH]; [reflexivity|..]; rewrite sumR_cons, IH; simpl.
  - lra.
  - rewrite F0. destruct (same_first (Some a) None); [discriminate|lra].
  - destruct (same_first None None); [rewrite sumR_cons; lra|contradiction].
Qed.

Theorem filter_within s : sound s -> forall left, 0 <= left -> forall T U, near T U ->
  within left (run D O left s T) (run D O left s U).
Proof.
  induction s as [|v M k IHk r IHr]; simpl sound; intros H left L T U N alpha A S ND.
  - destruct (least left alpha L A) as [P Q].
    set (same := list_eq_dec same_first).
    rewrite (sumR_ext _ (fun x => if same x [] then 1 - alpha else 0)).
    + rewrite (sumR_one same) by auto. destruct (in_dec same [] S); lra.
    + intros x _. simpl run. destruct x as [|y x]; destruct (same _ []);
      try congruence; ring.
  - destruct H as (V & HM & HW & Hk & Hr). simpl run. destruct (Rle_dec v left) as [G|G].
    + assert (G' : 0 <= left - v) by lra.
      rewrite (grouped _ S (nodup eqO (firsts S)));
        [|intros; cbv beta iota; ring|cbv beta iota; ring|apply NoDup_nodup|].
      2:{ intros o I. apply nodup_In. exact I. }
      assert (E0 : h left alpha = h (v + (left - v)) alpha) by (f_equal; ring). rewrite E0.
      apply Rle_trans with (sumR (fun o => after (left - v) alpha (M T o) (M U o))
                              (nodup eqO (firsts S)));
        [|apply two; auto; apply NoDup_nodup].
      apply sumR_le. intros o _. cbv beta iota.
      set (t := tails (Some o) S). assert (NT : NoDup t) by (apply tails_once; auto).
      pose proof (HM T o) as P. pose proof (HM U o) as Q.
      set (p := M T o) in *. set (q := M U o) in *. unfold after.
      destruct (Req_EM_T p 0) as [E|E].
      * apply Rle_trans with (sumR (fun _ => 0) t); [|rewrite sumR_0; lra].
        rewrite E. apply sumR_le. intros m _.
        pose proof (run_pos (k o) U (Hk o) (left - v) m) as B.
        assert (0 <= alpha * (q * run D O (left - v) (k o) U m))
          by (apply Rmult_le_pos; [|apply Rmult_le_pos]; auto).
        cbv beta iota. lra.
      * assert (P' : 0 < p) by lra.
        assert (A' : 0 <= alpha * q / p).
        { unfold Rdiv. apply Rmult_le_pos; [apply Rmult_le_pos; auto|].
          left. apply Rinv_0_lt_compat; auto. }
        pose proof (IHk o (Hk o) (left - v) G' T U N (alpha * q / p) A' t NT) as I.
        rewrite (sumR_ext _ (fun m => p * (run D O (left - v) (k o) T m
                   - alpha * q / p * run D O (left - v) (k o) U m))).
        -- rewrite sumR_scale. apply Rmult_le_compat_l; auto.
        -- intros m _. field. exact E.
    + rewrite refused_first; [|intros; cbv beta iota; ring|cbv beta iota; ring].
      apply (IHr Hr left L T U N alpha A). apply tails_once; auto.
Qed.
(* So (eps, delta)-DP for every eps at once, with delta = h left (e^eps). *)
Corollary filter_delta s : sound s -> forall left, 0 <= left -> forall T U, near T U ->
  forall eps S, NoDup S ->
  sumR (run D O left s T) S <= exp eps * sumR (run D O left s U) S + h left (exp eps).
Proof.
  intros H left L T U N eps S ND.
  pose proof (filter_within s H left L T U N (exp eps) (Rlt_le _ _ (exp_pos eps)) S ND) as W.
  rewrite (sumR_ext _ (fun x => run D O left s T x + - exp eps * run D O left s U x)) in W
    by (intros; ring).
  rewrite sumR_plus, sumR_scale in W. lra.
Qed.
End Filter.

(* --- where two releases compose --------------------------------------------------------------- *)

Lemma scaled_part c x : 0 <= c -> c * Rmax 0 x = Rmax 0 (c * x).
Proof.
  intros C. unfold Rmax. destruct (Rle_dec 0 x), (Rle_dec 0 (c * x)); nra.
Qed.
Lemma part_0 x : x <= 0 -> Rmax 0 x = 0.
Proof. intros H. apply Rmax_left; auto. Qed.
(* The positive parts of P - alpha Q over an event are P - alpha Q over a smaller one. *)
Lemma parts_within {O} h v (P Q : O -> R) : within h v P Q -> forall alpha, 0 <= alpha ->
  forall S, NoDup S -> sumR (fun o => Rmax 0 (P o - alpha * Q o)) S <= h v alpha.
Proof.
  intros W alpha A S ND.
  set (more := fun o => if Rlt_dec 0 (P o - alpha * Q o) then true else false).
  apply Rle_trans with (sumR (fun o => P o - alpha * Q o) (filter more S)).
  - clear ND. induction S as [|o S IH]; [simpl; lra|]. rewrite sumR_cons. simpl filter.
    unfold more at 1. unfold Rmax at 1. destruct (Rlt_dec 0 (P o - alpha * Q o));
    destruct (Rle_dec 0 (P o - alpha * Q o)); rewrite ?sumR_cons; lra.
  - apply W; auto. apply NoDup_filter; auto.
Qed.

(* Pure DP: P is at most e^v Q. *)
Definition pure_curve v alpha := Rmax 0 (1 - alpha * exp (- v)).
Theorem pure_two {O} v w (P Q : O -> R) : (forall o, 0 <= P o) -> (forall o, 0 <= Q o) ->
  within pure_curve v P Q -> forall alpha, 0 <= alpha -> forall S, NoDup S ->
  sumR (fun o => after pure_curve w alpha (P o) (Q o)) S <= pure_curve (v + w) alpha.
Proof.
  intros HP HQ W alpha A S ND. pose proof (exp_pos (- w)) as E.
  assert (A' : 0 <= alpha * exp (- w)) by (apply Rmult_le_pos; lra).
  apply Rle_trans with (sumR (fun o => Rmax 0 (P o - alpha * exp (- w) * Q o)) S).
  - apply sumR_le. intros o _. pose proof (HP o) as Po. pose proof (HQ o) as Qo. unfold after.
    destruct (Req_EM_T (P o) 0) as [->|N]; [apply Rmax_l|].
    unfold pure_curve. rewrite scaled_part by auto. right. f_equal. field. auto.
  - pose proof (parts_within pure_curve v P Q W _ A' S ND) as H.
    unfold pure_curve in *. rewrite Ropp_plus_distr, exp_plus.
    replace (alpha * (exp (- v) * exp (- w))) with (alpha * exp (- w) * exp (- v)) by ring. exact H.
Qed.

(* The curve of a finite pair of distributions: that of their most telling events. *)
Definition pair_curve {X} (A B : X -> R) (l : list X) (alpha : R) :=
  sumR (fun i => Rmax 0 (A i - alpha * B i)) l.
Lemma sumR_swap {A B} (f : A -> B -> R) l m :
  sumR (fun a => sumR (f a) m) l = sumR (fun b => sumR (fun a => f a b) l) m.
Proof.
  induction l as [|a l IH].
  - symmetry. apply sumR_0.
  - rewrite sumR_cons, IH, <- sumR_plus. apply sumR_ext. intros; rewrite sumR_cons. reflexivity.
Qed.
(* If a release is within the curve of one pair, and each that follows within that of another, then
   together they are within the curve of the product of the pairs. *)
Theorem pairs_two {O X Y} (A B : X -> R) l (A' B' : Y -> R) l' (P Q : O -> R) :
  (forall i, 0 <= A i) -> (forall i, 0 <= B i) -> (forall o, 0 <= P o) -> (forall o, 0 <= Q o) ->
  within (fun _ => pair_curve A' B' l') 0 P Q -> forall alpha, 0 <= alpha -> forall S, NoDup S ->
  sumR (fun o => after (fun _ => pair_curve A B l) 0 alpha (P o) (Q o)) S
    <= sumR (fun i => sumR (fun j => Rmax 0 (A i * A' j - alpha * (B i * B' j))) l') l.
Proof.
  intros HA HB HP HQ W alpha a0 S ND.
  apply Rle_trans with
    (sumR (fun o => sumR (fun i => Rmax 0 (P o * A i - alpha * (Q o * B i))) l) S).
  - apply sumR_le. intros o _. pose proof (HP o) as Po. unfold after.
    destruct (Req_EM_T (P o) 0) as [E|N].
    + apply sumR_pos. intros. apply Rmax_l.
    + unfold pair_curve. rewrite <- sumR_scale. right. apply sumR_ext. intros i _.
      rewrite scaled_part by auto. f_equal. field. auto.
  - rewrite sumR_swap. apply sumR_le. intros i _. pose proof (HA i) as Ai. pose proof (HB i) as Bi.
    destruct (Req_EM_T (A i) 0) as [E|N].
    + apply Rle_trans with (sumR (fun _ : O => 0) S).
      * apply sumR_le. intros o _. rewrite part_0; [lra|]. rewrite E.
        pose proof (HQ o). assert (0 <= alpha * (Q o * B i)) by (repeat apply Rmult_le_pos; auto).
        lra.
      * rewrite sumR_0. apply sumR_pos. intros. apply Rmax_l.
    + assert (a1 : 0 <= alpha * B i / A i).
      { unfold Rdiv. repeat apply Rmult_le_pos; auto. left. apply Rinv_0_lt_compat. lra. }
      pose proof (parts_within _ 0 P Q W _ a1 S ND) as H. cbv beta in H. unfold pair_curve in H.
      apply Rmult_le_compat_l with (r := A i) in H; auto. rewrite <- !sumR_scale in H.
      erewrite sumR_ext in H; [|intros o _; rewrite scaled_part by auto; reflexivity].
      eapply Rle_trans; [|eapply Rle_trans; [exact H|]]; right; apply sumR_ext; intros x _.
      * f_equal. field. auto.
      * rewrite scaled_part by auto. f_equal. field. auto.
Qed.
