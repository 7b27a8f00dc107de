#!/usr/bin/env bash
# Install the provers that proofs/check needs, on Debian or Ubuntu; about 600 MB unpacked.
# Other systems: `opam install coq.8.16.1`, or the Coq Platform, and Gappa 1.4 (gappa.gitlabpages.inria.fr).
# The proofs use Coq's standard library only; they were checked with Coq 8.16 and Gappa 1.4.
set -euo pipefail
[ "$(id -u)" = 0 ] || exec sudo "$0"
apt-get update -q
apt-get install -q -y --no-install-recommends coq gappa
