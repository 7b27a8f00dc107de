(* Pure differential privacy of discrete releases: events, the adaptive filter, groups, parts.

   What is proved: the definition by single outcomes gives the one by events, finite or countable;
   a sequence of releases, each chosen by all answers so far and refused where its level is above
   what is left, loses no more than the filter was opened with; what is eps-DP for a step is
   k eps-DP for k steps, so a k-th part for each step is enough; one mechanism for each part of a
   table costs what one of them costs.

   PROOFS.md: "Metering", "Stability" (steps).  Modules: skdp/core/privacy_filter.py (take,
   per_step), skdp/core/session.py.  The session of skdp's own queries is in Session.v. *)
Require Import Reals Lra Lia ZArith List Psatz.
Import ListNotations.
Open Scope R_scope.

Definition sumR {A} (f : A -> R) (l : list A) := fold_right (fun x a => f x + a) 0 l.
Lemma sumR_le {A} (f g : A -> R) l : (forall x, In x l -> f x <= g x) -> sumR f l <= sumR g l.
Proof.
  induction l; simpl; intros H; [lra|]. pose proof (H a (or_introl eq_refl)).
  assert (sumR f l <= sumR g l) by (apply IHl; auto). unfold sumR in *; lra.
Qed.
Lemma sumR_scale {A} c (f : A -> R) l : sumR (fun x => c * f x) l = c * sumR f l.
Proof. induction l; simpl; [lra|]. unfold sumR in *. rewrite IHl. lra. Qed.
Lemma sumR_pos {A} (f : A -> R) l : (forall x, 0 <= f x) -> 0 <= sumR f l.
Proof. intros H. induction l; simpl; [lra|]. pose proof (H a). unfold sumR in *; lra. Qed.
Lemma exp_le x y : x <= y -> exp x <= exp y.
Proof. intros [L| ->]; [left; apply exp_increasing; auto|lra]. Qed.
Lemma exp_ge_1 x : 0 <= x -> 1 <= exp x.
Proof. intros H. rewrite <- exp_0. apply exp_le; auto. Qed.
Lemma CV_const x : Un_cv (fun _ => x) x.
Proof.
  intros e E. exists 0%nat. intros. unfold R_dist. rewrite Rminus_diag_eq; auto.
  rewrite Rabs_R0. lra.
Qed.

Section DP.
Variable D : Type.
Variable near : D -> D -> Prop. (* neighbours: any relation *)

(* M T o is the probability of the outcome o on the table T. *)
Definition dp {O} (eps : R) (M : D -> O -> R) := forall T U, near T U -> forall o,
  0 <= M T o /\ M T o <= exp eps * M U o.

(* --- events: finite ones, and countable ones as limits ---------------------------------------- *)

Theorem dp_event {O} eps (M : D -> O -> R) T U (S : list O) : dp eps M -> near T U ->
  sumR (M T) S <= exp eps * sumR (M U) S.
Proof. intros H N. rewrite <- sumR_scale. apply sumR_le. intros; apply H; auto. Qed.
Theorem dp_countable {O} eps (M : D -> O -> R) T U (S : nat -> O) p q : dp eps M -> near T U ->
  infinit_sum (fun i => M T (S i)) p -> infinit_sum (fun i => M U (S i)) q -> p <= exp eps * q.
Proof.
  intros H N P Q.
  assert (P' : Un_cv (fun n => sum_f_R0 (fun i => M T (S i)) n) p) by exact P.
  assert (Q' : Un_cv (fun n => exp eps * sum_f_R0 (fun i => M U (S i)) n) (exp eps * q))
    by (apply CV_mult; [apply CV_const|exact Q]).
  eapply Rle_cv_lim; [|exact P'|exact Q']. intros n. cbv beta. rewrite scal_sum. apply sum_Rle.
  intros. rewrite Rmult_comm. apply H; auto.
Qed.

(* More may be claimed than is lost. *)
Theorem dp_weaken {O} e f (M : D -> O -> R) : e <= f -> dp e M -> dp f M.
Proof.
  intros L H T U N o. destruct (H T U N o) as [A B]. split; auto. eapply Rle_trans; [exact B|].
  assert (0 <= M U o).
  { destruct (Rle_lt_dec 0 (M U o)); auto. pose proof (exp_pos e). nra. }
  apply Rmult_le_compat_r; auto. apply exp_le; auto.
Qed.

(* --- the privacy filter ----------------------------------------------------------------------- *)

(* A session is a strategy: it asks for a release of a level that it chooses by all earlier
   answers, and goes on by the answer; where the filter refuses it goes on, too. *)
Section Filter.
Variable O : Type.
Inductive strategy :=
| Stop
| Ask (e : R) (M : D -> O -> R) (answered : O -> strategy) (refused : strategy).
Fixpoint honest (s : strategy) : Prop := match s with
  | Stop => True
  | Ask e M k r => 0 <= e /\ dp e M /\ (forall o, honest (k o)) /\ honest r end.
(* What is seen: an answer, or a refusal. *)
Fixpoint run (left : R) (s : strategy) (T : D) (seen : list (option O)) : R := match s with
  | Stop => match seen with [] => 1 | _ => 0 end
  | Ask e M k r => if Rle_dec e left
      then match seen with Some o :: more => M T o * run (left - e) (k o) T more | _ => 0 end
      else match seen with None :: more => run left r T more | _ => 0 end end.
Theorem filter_dp s : honest s -> forall left, 0 <= left -> dp left (run left s).
Proof.
  induction s as [|e M k IHk r IHr]; simpl; intros H left L T U N seen.
  - pose proof (exp_ge_1 left L). destruct seen; lra.
  - destruct H as (E & HM & Hk & Hr). destruct (Rle_dec e left) as [A|A].
    + destruct seen as [|[o|] more]; try lra.
      destruct (HM T U N o) as [P1 P2].
      destruct (IHk o (Hk o) (left - e) ltac:(lra) T U N more) as [Q1 Q2].
      split; [nra|].
      replace (exp left) with (exp e * exp (left - e)) by (rewrite <- exp_plus; f_equal; lra).
      replace (exp e * exp (left - e) * (M U o * run (left - e) (k o) U more))
        with ((exp e * M U o) * (exp (left - e) * run (left - e) (k o) U more)) by ring.
      apply Rmult_le_compat; auto.
    + destruct seen as [|[o|] more]; try lra. apply IHr; auto.
Qed.
End Filter.

(* --- group privacy ---------------------------------------------------------------------------- *)

(* Tables that are k steps apart. *)
Inductive steps : nat -> D -> D -> Prop :=
| same T : steps 0 T T
| further k T U V : near T U -> steps k U V -> steps (S k) T V.
Theorem group_dp {O} eps (M : D -> O -> R) k T V : dp eps M -> steps (S k) T V -> forall o,
  0 <= M T o /\ M T o <= exp (INR (S k) * eps) * M V o.
Proof.
  intros H. revert T V. induction k; intros T V S o; inversion S; subst.
  - inversion H2; subst. simpl. rewrite Rmult_1_l. apply H; auto.
  - destruct (IHk _ _ H2 o) as [A B]. destruct (H _ _ H1 o) as [P Q]. split; auto.
    rewrite S_INR, Rmult_plus_distr_r, Rmult_1_l, Rplus_comm, exp_plus.
    pose proof (exp_pos eps). nra.
Qed.
(* A k-th part for each step (PrivacyFilter.per_step). *)
Corollary per_step {O} eps (M : D -> O -> R) k T V :
  dp (eps / INR (S k)) M -> steps (S k) T V -> forall o, M T o <= exp eps * M V o.
Proof.
  intros H S o. destruct (group_dp _ _ _ _ _ H S o) as [_ A].
  replace (INR (Datatypes.S k) * (eps / INR (Datatypes.S k))) with eps in A; auto.
  field. apply not_0_INR; lia.
Qed.
End DP.

(* --- parallel composition --------------------------------------------------------------------- *)

(* One mechanism for each part of a table by a key of the row; one row added or removed. *)
Section Parallel.
Variables (Row K O : Type) (eqK : forall a b : K, {a = b} + {a <> b}) (key : Row -> K).
Definition part (k : K) (T : list Row) :=
  filter (fun r => if eqK (key r) k then true else false) T.
Definition one_more (T U : list Row) := exists r A B,
  (T = A ++ B /\ U = A ++ r :: B) \/ (U = A ++ B /\ T = A ++ r :: B).
Variable M : K -> list Row -> O -> R.
Definition joint (ks : list K) (T : list Row) (o : K -> O) :=
  fold_right (fun k a => M k (part k T) (o k) * a) 1 ks.
Lemma part_same r A B k : key r <> k -> part k (A ++ r :: B) = part k (A ++ B).
Proof.
  intros H. unfold part. rewrite !filter_app. simpl.
  destruct (eqK (key r) k); [contradiction|auto].
Qed.
Lemma part_more r A B :
  part (key r) (A ++ r :: B) = part (key r) A ++ r :: part (key r) B.
Proof.
  unfold part. rewrite filter_app. simpl. destruct (eqK (key r) (key r)); [auto|contradiction].
Qed.
Theorem parallel_dp eps ks : 0 <= eps -> NoDup ks ->
  (forall k, dp (list Row) one_more eps (M k)) -> (forall k T o, 0 <= M k T o) ->
  dp (list Row) one_more eps (joint ks).
Proof.
  intros E ND H Pos T U N o.
  assert (J : forall l V, 0 <= joint l V o).
  { induction l; simpl; intros; [lra|]. apply Rmult_le_pos; auto. }
  split; [apply J|]. pose proof (exp_ge_1 eps E) as E1.
  destruct N as (r & A & B & N).
  assert (S : forall l, ~ In (key r) l -> joint l T o = joint l U o).
  { induction l; simpl; intros I; auto. f_equal; [|apply IHl; tauto]. f_equal.
    destruct N as [[-> ->]|[-> ->]]; rewrite part_same; auto; intros ->; tauto. }
  assert (L : M (key r) (part (key r) T) (o (key r))
              <= exp eps * M (key r) (part (key r) U) (o (key r))).
  { apply H. exists r, (part (key r) A), (part (key r) B).
    destruct N as [[-> ->]|[-> ->]]; [left|right]; rewrite part_more; unfold part;
    rewrite filter_app; auto. }
  induction ks as [|k l IH]; simpl; [lra|]. inversion ND; subst.
  destruct (eqK (key r) k) as [Eq|Ne]; [subst k|].
  - rewrite (S l) by auto. rewrite <- Rmult_assoc. apply Rmult_le_compat_r; auto.
  - replace (part k T) with (part k U).
    + replace (exp eps * (M k (part k U) (o k) * joint l U o))
        with (M k (part k U) (o k) * (exp eps * joint l U o)) by ring.
      apply Rmult_le_compat_l; auto.
    + destruct N as [[-> ->]|[-> ->]]; rewrite part_same; auto.
Qed.
End Parallel.
