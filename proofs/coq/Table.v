(* Values of the proved definitions, for comparison with the shipped functions.

   `proofs/check --write` writes what Coq prints here to proofs/table.txt; tests/verified calls the
   functions of skdp with the same arguments.  The four lists, in this order:
   1. isqrt_up v, v = 0 ... 1100;
   2. shortened t f, t = 1 ... 6, f = -70 ... 70;
   3. after_shortening D t 3, t = 1 ... 6, D = 1 ... 131;
   4. moved r a x y (query.moved_by), each of r, a, x, y = 0 ... 4, the last the fastest. *)
Require Import ZArith List.
From Skdp Require Import Sums Queries.
Import ListNotations.
Open Scope Z_scope.
Fixpoint upto (n : nat) : list Z := match n with O => [0] | S m => upto m ++ [Z.of_nat n] end.
Definition range (a : Z) (n : nat) := map (fun i => a + i) (upto n).
Eval vm_compute in map isqrt_up (upto 1100).
Eval vm_compute in map (fun t => map (shortened t) (range (-70) 140)) (range 1 5).
Eval vm_compute in map (fun t => map (fun D => after_shortening D t 3) (range 1 130)) (range 1 5).
Eval vm_compute in
  flat_map (fun r => flat_map (fun a => flat_map (fun x => map (moved r a x) (upto 4))
    (upto 4)) (upto 4)) (upto 4).
