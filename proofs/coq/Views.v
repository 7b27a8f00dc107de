(* What a session may stand on: the caller's table, or one that is derived from it.

   What is proved:
   - What a filter of each row leaves has the stability (1, 1) where rows are replaced, and (0, 1)
     where they are added or removed.
   - Tables with an id beside each row, of which all rows of one unit may change: if at most k rows
     of each unit stay, by a rule that sees the unit's id and its own rows only, then what stays has
     the stability (k, k), or (0, k).
   - The table of the numbers of rows of each unit has the stability (1, 1), or (0, 1).
   So sessions on all of these are eps-DP for one unit of the caller's table, also where k is chosen
   first and the session on what stays has the rest of the allowance.

   On paper: that the shipped code keeps at most k rows of each unit by a rule of that kind.

   PROOFS.md: "Stability" (the table of tables), "Units of many rows".
   Modules: skdp/core/table.py (Stability.filtered), skdp/core/units.py (bound_units, unit_table),
   skdp/core/session.py (open_session). *)
Require Import Reals Lra Lia ZArith QArith List Permutation.
From Skdp Require Import Sums Privacy Choice Stability Queries Session.
Import ListNotations.
Open Scope Z_scope.

(* --- one part of a table is exchanged --------------------------------------------------------- *)

Section Exchange.
Variable Row : Type.
Notation apart := (apart (replace_one Row) (add_or_remove Row)).
Lemma taken_out (A B : list Row) x : Permutation (A ++ x :: B) (x :: A ++ B).
Proof. apply Permutation_sym, Permutation_middle. Qed.
Lemma apart_is i j i' j' T U : apart i j T U -> i = i' -> j = j' -> apart i' j' T U.
Proof. intros H -> ->. exact H. Qed.
Lemma exchange_in A B P P' : apart (Z.min (Z.of_nat (length P)) (Z.of_nat (length P')))
  (Z.abs (Z.of_nat (length P) - Z.of_nat (length P'))) (A ++ P ++ B) (A ++ P' ++ B).
Proof.
  revert A P'. induction P as [|x P IH]; intros A P'.
  - revert A. induction P' as [|y P' IH']; intros A; [apply here|]. specialize (IH' (A ++ [y])).
    rewrite <- !app_assoc in IH'.
    eapply apart_is; [eapply entered; [|exact IH']|simpl length; lia|simpl length; lia].
    left. exists y. apply taken_out.
  - destruct P' as [|y P'].
    + specialize (IH A []).
      eapply apart_is; [eapply entered; [|exact IH]|simpl length; lia|simpl length; lia].
      right. exists x. apply taken_out.
    + specialize (IH (A ++ [y]) P'). rewrite <- !app_assoc in IH.
      eapply apart_is; [eapply replaced; [|exact IH]|simpl length; lia|simpl length; lia].
      exists x, y, (A ++ P ++ B). split; apply taken_out.
Qed.
End Exchange.

(* --- the caller's own table, and what a filter of each row leaves ----------------------------- *)

Section Rows.
Variable Row : Type.
Definition itself r a : view (list Row) := {| row := Row; rows := fun T => T; r := r; a := a |}.
Theorem itself_stable r a : 0 <= r -> 0 <= a -> (0 < r \/ 0 < a) ->
  stable (list Row) (near Row r a) (itself r a).
Proof. intros r0 a0 ra. repeat split; auto. Qed.

(* One row replaced in its place; one row more, at any place, or one less. *)
Definition replaced_in_place (T U : list Row) :=
  exists A B x y, T = A ++ x :: B /\ U = A ++ y :: B.
Definition one_row_more (T U : list Row) := exists A B x,
  (T = A ++ B /\ U = A ++ x :: B) \/ (T = A ++ x :: B /\ U = A ++ B).
Theorem in_place_stable : stable (list Row) replaced_in_place (itself 1 0).
Proof.
  split; [simpl; lia|]. split; [simpl; lia|]. split; [simpl; lia|].
  intros T U (A & B & x & y & -> & ->). exists 1, 0. split; [|unfold of_unit; simpl; lia].
  apply (replaced _ _ 0 0 _ (A ++ y :: B)); [|apply here].
  exists x, y, (A ++ B). split; apply taken_out.
Qed.
Theorem one_row_more_stable : stable (list Row) one_row_more (itself 0 1).
Proof.
  split; [simpl; lia|]. split; [simpl; lia|]. split; [simpl; lia|].
  intros T U (A & B & x & [[-> ->]|[-> ->]]); exists 0, 1;
  (split; [|unfold of_unit; simpl; lia]).
  - apply (entered _ _ 0 0 _ (A ++ x :: B)); [left; exists x; apply taken_out|apply here].
  - apply (entered _ _ 0 0 _ (A ++ B)); [right; exists x; apply taken_out|apply here].
Qed.

(* What a filter of each row leaves; each row may be mapped to something else. *)
Variables (Out : Type) (keep : Row -> option Out).
Definition kept x := match keep x with Some y => [y] | None => [] end.
Definition filtered r a : view (list Row) :=
  {| row := Out; rows := flat_map kept; r := r; a := a |}.
Lemma kept_length x : (length (kept x) <= 1)%nat.
Proof. unfold kept. destruct (keep x); simpl; lia. Qed.
Theorem filtered_stable_R : stable (list Row) replaced_in_place (filtered 1 1).
Proof.
  split; [simpl; lia|]. split; [simpl; lia|]. split; [simpl; lia|].
  intros T U (A & B & x & y & -> & ->). simpl rows. rewrite !flat_map_app. simpl flat_map.
  eexists _, _. split; [apply exchange_in|].
  pose proof (kept_length x). pose proof (kept_length y). unfold of_unit. simpl r; simpl a. lia.
Qed.
Theorem filtered_stable_A : stable (list Row) one_row_more (filtered 0 1).
Proof.
  split; [simpl; lia|]. split; [simpl; lia|]. split; [simpl; lia|].
  intros T U (A & B & x & [[-> ->]|[-> ->]]); simpl rows; rewrite !flat_map_app; simpl flat_map;
  pose proof (kept_length x).
  - pose proof (exchange_in Out (flat_map kept A) (flat_map kept B) [] (kept x)) as E.
    simpl app in E. eexists _, _. split; [exact E|]. unfold of_unit. simpl. lia.
  - pose proof (exchange_in Out (flat_map kept A) (flat_map kept B) (kept x) []) as E.
    simpl app in E. eexists _, _. split; [exact E|]. unfold of_unit. simpl. lia.
Qed.
End Rows.

(* --- at most k rows of each unit -------------------------------------------------------------- *)

Section Units.
Variables (Id Row Out : Type) (same_id : forall u v : Id, {u = v} + {u <> v}).
Notation table := (list (Id * Row)).
Variable ids : list Id. (* all that may occur *)
Hypothesis once : NoDup ids.
Variable k : Z. Hypothesis k0 : 0 < k.
(* Which rows of a unit stay, or what of them. *)
Variable keep : Id -> list Row -> list Out.
Hypothesis at_most : forall u rows, Z.of_nat (length (keep u rows)) <= k.
Hypothesis of_nothing : forall u, keep u [] = [].
Definition rows_of (u : Id) (T : table) : list Row :=
  map snd (filter (fun p => if same_id (fst p) u then true else false) T).
Definition bounded (T : table) : list Out := flat_map (fun u => keep u (rows_of u T)) ids.

(* Neighbours: the rows of all other units are the same, in the same order. *)
Definition unit_replaced (T T' : table) :=
  exists u, forall v, v <> u -> rows_of v T = rows_of v T'.
Definition unit_added_or_removed (T T' : table) :=
  exists u, (forall v, v <> u -> rows_of v T = rows_of v T') /\
            (rows_of u T = [] \/ rows_of u T' = []).

Lemma others_same u T T' l : (forall v, v <> u -> rows_of v T = rows_of v T') -> ~ In u l ->
  flat_map (fun v => keep v (rows_of v T)) l = flat_map (fun v => keep v (rows_of v T')) l.
Proof.
  intros H. induction l as [|v l IH]; simpl; intros N; [reflexivity|].
  rewrite (H v), IH; auto.
Qed.
Lemma bounded_apart u T T' : (forall v, v <> u -> rows_of v T = rows_of v T') ->
  exists A B P P', bounded T = A ++ P ++ B /\ bounded T' = A ++ P' ++ B /\
    (P = [] /\ P' = [] \/ P = keep u (rows_of u T) /\ P' = keep u (rows_of u T')).
Proof.
  intros H. unfold bounded. destruct (in_dec same_id u ids) as [I|N].
  - destruct (in_split _ _ I) as (A & B & E). rewrite E in *.
    assert (NA : ~ In u A /\ ~ In u B).
    { apply NoDup_remove_2 in once. rewrite in_app_iff in once. tauto. }
    exists (flat_map (fun v => keep v (rows_of v T)) A),
           (flat_map (fun v => keep v (rows_of v T)) B),
           (keep u (rows_of u T)), (keep u (rows_of u T')).
    rewrite !flat_map_app. simpl. rewrite !(others_same u T T' _ H) by tauto. auto.
  - exists (flat_map (fun v => keep v (rows_of v T)) ids), [], [], [].
    rewrite (others_same u T T' ids H N), !app_nil_r. auto.
Qed.
Theorem bounded_R T T' : unit_replaced T T' -> near Out k k (bounded T) (bounded T').
Proof.
  intros (u & H). destruct (bounded_apart u T T' H) as (A & B & P & P' & E & E' & F).
  rewrite E, E'. eexists _, _. split; [apply exchange_in|].
  pose proof (at_most u (rows_of u T)). pose proof (at_most u (rows_of u T')).
  destruct F as [[-> ->]|[-> ->]]; unfold of_unit; simpl length; split; nia.
Qed.
Theorem bounded_A T T' : unit_added_or_removed T T' -> near Out 0 k (bounded T) (bounded T').
Proof.
  intros (u & H & N). destruct (bounded_apart u T T' H) as (A & B & P & P' & E & E' & F).
  rewrite E, E'. eexists _, _. split; [apply exchange_in|].
  pose proof (at_most u (rows_of u T)). pose proof (at_most u (rows_of u T')).
  assert (M : P = [] \/ P' = []).
  { destruct F as [[-> ->]|[-> ->]]; auto. destruct N as [-> | ->]; rewrite of_nothing; auto. }
  assert (L : Z.of_nat (length P) <= k /\ Z.of_nat (length P') <= k).
  { destruct F as [[-> ->]|[-> ->]]; simpl length; lia. }
  unfold of_unit. destruct M as [-> | ->]; simpl length in *; lia.
Qed.

Definition kept_rows r : view table := {| row := Out; rows := bounded; r := r; a := k |}.
Theorem kept_rows_stable_R : stable table unit_replaced (kept_rows k).
Proof. repeat (split; [simpl; lia|]). exact bounded_R. Qed.
Theorem kept_rows_stable_A : stable table unit_added_or_removed (kept_rows 0).
Proof. repeat (split; [simpl; lia|]). exact bounded_A. Qed.
End Units.

(* --- k is chosen first ------------------------------------------------------------------------ *)

Section Chosen.
Variables (Id Row : Type) (same_id : forall u v : Id, {u = v} + {u <> v}).
Notation table := (list (Id * Row)).
Variable ids : list Id.
Hypothesis once : NoDup ids.
Notation replaced := (unit_replaced Id Row same_id).
Notation added := (unit_added_or_removed Id Row same_id).
(* units.unit_table: one number a unit that has a row, how many it has. *)
Definition rows_per_unit (u : Id) (l : list Row) := match l with [] => [] | _ => [length l] end.
Definition counts r : view table := kept_rows Id Row nat same_id ids 1 rows_per_unit r.
Theorem counts_stable_R : stable table replaced (counts 1).
Proof.
  apply kept_rows_stable_R; auto; [lia|]. intros u [|x l]; simpl; lia.
Qed.
Theorem counts_stable_A : stable table added (counts 0).
Proof.
  apply kept_rows_stable_A; auto; [lia|]. intros u [|x l]; simpl; lia.
Qed.

(* open_session with a private number of rows a unit: it is chosen for a share, then the rest is for
   the session on what stays. *)
Variables (candidates : list nat) (candidate : nat -> nat) (penalty : Z) (share : Q).
Hypothesis some : candidates <> []. Hypothesis share0 : (0 < share)%Q.
Definition choice := Queries.Choice nat
  [{| cands := candidates; multiplicity := fun _ => 1%R;
      score := rows_score candidate penalty |}] 100 99.
Definition chosen_first r (next : nat -> analyst table) : analyst table :=
  Put table (asked table (counts r) share 0 choice)
    (fun o => match o with
              | Chosen [c] => KeepRest table (next (candidate c)) (Leave table)
              | _ => Leave table end)
    (Leave table).
Theorem chosen_first_asks near r next : stable table near (counts r) ->
  (forall k, asks_queries table near (next k)) ->
  asks_queries table near (chosen_first r next).
Proof.
  intros S N. simpl. split; [|split; [|exact I]].
  - exists (counts r), share, 0, choice. split; [exact S|]. split; [exact share0|].
    split; [lia|]. split; [|reflexivity]. apply rows_per_unit_well; auto.
  - intros [v|[|c [|]]]; simpl; auto.
Qed.
Theorem chosen_first_dp_R eps next : (0 < eps)%R ->
  (forall k, asks_queries table replaced (next k)) ->
  dp table replaced eps (opened table eps (chosen_first 1 next)).
Proof.
  intros E N. apply session_of_queries_dp; auto. apply chosen_first_asks; auto.
  apply counts_stable_R.
Qed.
Theorem chosen_first_dp_A eps next : (0 < eps)%R ->
  (forall k, asks_queries table added (next k)) ->
  dp table added eps (opened table eps (chosen_first 0 next)).
Proof.
  intros E N. apply session_of_queries_dp; auto. apply chosen_first_asks; auto.
  apply counts_stable_A.
Qed.
End Chosen.
