(* The queries of skdp, and what they have to keep.

   A query asks a table of rows.  It is a sum of a row map, with bounds on what one row does to it;
   a choice by integer scores; or a measurement, which is any mechanism that is DP for one step.

   What is proved: the sensitivities of counts, histograms, sums and means hold, if the row map is
   bounded; so does that of the choice of how many rows of a unit stay.

   PROOFS.md: "Sums", "What a query has to keep", "Units of many rows" (how many).
   Modules: skdp/core/query.py (Query, Choice, Measurement, moved_by), skdp/core/sums.py,
   skdp/core/mechanisms.py (Independent, Spherical), skdp/queries/histograms.py,
   skdp/core/units.py (RowsPerUnit). *)
Require Import Reals Lra Lia ZArith List Permutation.
From Skdp Require Import Sums Privacy KNorm Choice Stability.
Import ListNotations.
Open Scope R_scope.

(* What comes out of a release. *)
Inductive answer := Numbers (v : vec) | Chosen (c : list nat).

(* query.moved_by: how far the answer moves for a unit of a table of stability (r, a). *)
Definition moved r a sizeR sizeA := Z.max (r * sizeR) (a * sizeA).
Lemma moved_pos r a x y : (0 <= r)%Z -> (0 <= a)%Z -> (0 < r \/ 0 < a)%Z ->
  (0 < x)%Z -> (0 < y)%Z -> (0 < moved r a x y)%Z.
Proof. unfold moved. nia. Qed.

Section Queries.
Variable Row : Type.
Notation table := (list Row).
(* A row map with its bounds for a replaced row (R), and for one added or removed (A). *)
Inductive query :=
| Independent (or_spherical : bool) (d : nat) (phi : Row -> vec) (l1R l1A sqR sqA : Z)
| Spherical (d : nat) (phi : Row -> vec) (sizeR sizeA : Z)
(* of n parts; `part` says of which a coordinate is *)
| Boxed (part : nat -> nat) (part_le : forall j, (part j <= j)%nat) (n d : nat)
    (phi : Row -> vec) (boxR boxA : Z)
| Choice (rounds : list (round table)) (sizeR sizeA : Z)
| Measurement (M : R -> table -> answer -> R).
(* What a query has to keep, on a table where a step is `step a`. *)
Definition well (a : Z) q := match q with
| Independent _ d phi l1R l1A sqR sqA =>
    (0 < l1R /\ 0 < l1A /\ 0 < sqR /\ 0 < sqA)%Z /\
    (forall x y, l1 d (minus (phi x) (phi y)) <= l1R /\ sq d (minus (phi x) (phi y)) <= sqR)%Z /\
    (forall x, l1 d (phi x) <= l1A /\ sq d (phi x) <= sqA)%Z
| Spherical d phi sizeR sizeA => (0 < sizeR /\ 0 < sizeA)%Z /\
    (forall x y, sq d (minus (phi x) (phi y)) <= sizeR * sizeR)%Z /\
    (forall x, sq d (phi x) <= sizeA * sizeA)%Z
| Boxed part _ n d phi boxR boxA => (0 < boxR /\ 0 < boxA)%Z /\ (0 < n)%nat /\
    (forall j, (j < d)%nat -> (part j < n)%nat) /\
    (forall x y, largestsZ part d (minus (phi x) (phi y)) <= boxR)%Z /\
    (forall x, largestsZ part d (phi x) <= boxA)%Z
| Choice rounds sizeR sizeA => (0 < sizeR /\ 0 < sizeA)%Z /\ rounds <> [] /\
    forall q, In q rounds -> choosable q /\ forall c,
    (forall T U, replace_one Row T U -> (Z.abs (score q T c - score q U c) <= sizeR)%Z) /\
    (forall T U, add_or_remove Row T U -> (Z.abs (score q T c - score q U c) <= sizeA)%Z)
| Measurement M => (forall e T o, 0 <= M e T o) /\
    forall e, 0 < e -> dp table (step Row a) e (M e) end.

(* sums.Count, queries.histograms, sums.Sum, sums.Mean: their sensitivities hold. *)
Definition count := Independent false 1 (fun _ _ => 1%Z) 1 1 1 1.
Theorem count_well : forall a, well a count.
Proof.
  intros a. unfold count, well, l1, sq, minus; simpl. split; [lia|]. split; intros; lia.
Qed.
(* A row adds one to one bin of each of so many histograms side by side. *)
Definition histogram or_spherical d parts (bins : Row -> vec) :=
  Independent or_spherical d bins (2 * parts) parts (2 * parts) parts.
Theorem histogram_well a or_spherical d parts bins : (0 < parts)%Z ->
  (forall x j, bins x j = 0 \/ bins x j = 1)%Z -> (forall x, l1 d (bins x) <= parts)%Z ->
  well a (histogram or_spherical d parts bins).
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
Theorem sum_well a d phi norm : (0 <= norm)%Z -> (forall x, sq d (phi x) <= norm * norm)%Z ->
  well a (sum d phi norm).
Proof.
  intros N B. unfold sum, well. split; [unfold sum_R, sum_A; lia|]. split.
  - intros x y. eapply Z.le_trans; [apply (ball_diameter d norm); auto|]. unfold sum_R. nia.
  - intros x. pose proof (B x). pose proof (sum_A_bound 0 norm). lia.
Qed.
(* counted: where the number of rows is private, weight * n is an entry of the vector. *)
Definition mean (counted : bool) d phi norm weight :=
  if counted then Spherical (S d) (with_count weight d phi) (sum_R norm) (sum_A weight norm)
  else Spherical d phi (sum_R norm) (sum_A weight norm).
Theorem mean_well a counted d phi norm weight : (0 <= norm)%Z ->
  (forall x, sq d (phi x) <= norm * norm)%Z -> well a (mean counted d phi norm weight).
Proof.
  intros N B. pose proof (sum_A_bound weight norm) as A. destruct counted; unfold mean, well;
  (split; [unfold sum_R, sum_A; lia|]); split.
  - intros x y. eapply Z.le_trans; [apply (with_count_replaced weight d phi norm); auto|].
    unfold sum_R. nia.
  - intros x. pose proof (with_count_bound weight d phi norm x (B x)). lia.
  - intros x y. eapply Z.le_trans; [apply (ball_diameter d norm); auto|]. unfold sum_R. nia.
  - intros x. pose proof (B x). nia.
Qed.
End Queries.

(* --- how many rows of a unit stay ------------------------------------------------------------- *)

(* units.RowsPerUnit: of a table with one number a unit, how many rows it has.  Wanted is the least
   candidate c that leaves about 99 units in 100 whole.  Its score is max(100 F(c) - U, 0) and a
   public penalty; F(c): the units with more than c rows, U: all units. *)
Definition above (c : nat) (T : list nat) : Z :=
  fold_right (fun n s => (if Nat.ltb c n then 1 else 0) + s)%Z 0%Z T.
Definition excess c (T : list nat) : Z := (100 * above c T - Z.of_nat (length T))%Z.
Definition rows_score (candidate : nat -> nat) (penalty : Z) (T : list nat) (c : nat) : Z :=
  (Z.max (excess (candidate c) T) 0 + penalty * Z.of_nat c)%Z.
Lemma above_cons c n T : above c (n :: T) = ((if Nat.ltb c n then 1 else 0) + above c T)%Z.
Proof. reflexivity. Qed.
Lemma excess_same c T U : Permutation T U -> excess c T = excess c U.
Proof.
  intros P. unfold excess. rewrite (Permutation_length P). f_equal. f_equal.
  induction P; rewrite ?above_cons; lia.
Qed.
Lemma excess_cons c n T : (excess c T - 1 <= excess c (n :: T) <= excess c T + 99)%Z.
Proof.
  unfold excess. rewrite above_cons. change (length (n :: T)) with (S (length T)).
  destruct (Nat.ltb c n); lia.
Qed.
Theorem rows_per_unit_well a candidate penalty candidates : candidates <> [] ->
  well nat a (Choice nat [{| cands := candidates; multiplicity := fun _ => 1;
                             score := rows_score candidate penalty |}] 100 99).
Proof.
  intros N. simpl. split; [lia|]. split; [discriminate|]. intros q [<-|[]]. split.
  - split; [intros; simpl; lra|]. destruct candidates as [|c l]; [contradiction|].
    exists c. simpl. split; [auto|lra].
  - intros c. simpl. unfold rows_score. split.
    + intros T U (x & y & V & P & Q).
      rewrite (excess_same _ _ _ P), (excess_same _ _ _ Q).
      pose proof (excess_cons (candidate c) x V). pose proof (excess_cons (candidate c) y V). lia.
    + intros T U [(x & P)|(x & P)]; rewrite (excess_same _ _ _ P);
      [pose proof (excess_cons (candidate c) x T)|pose proof (excess_cons (candidate c) x U)]; lia.
Qed.
