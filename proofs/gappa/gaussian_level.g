# Meter.level and mechanisms.sigma_up: what a Gaussian session computes is rounded towards privacy.
# skdp/core/privacy_filter.py, skdp/core/mechanisms.py.
#
# C: mu of the session, a float; S: a share, T: the part of the allowance that shares are of, exact
# fractions; K: the steps of a unit.  The float level is at most sqrt(S) * C * sqrt(T) / K.
# D: a sensitivity, M: a level, floats.  The float scale sigma is at least D / M.
@rnd = float<ieee_64, ne>;
f = rnd(S);
t = rnd(T);
rest rnd= C * sqrt(t) * (1 - 1b-50) / K;
level rnd= sqrt(f) * rest * (1 - 1b-50);
Level = sqrt(S) * (C * sqrt(T) / K);
LevelC = sqrt(S) * (C * sqrt(T) * (1 - 1b-50) / K) * (1 - 1b-50);
# Where shares are of all that was charged (T = 1).
first rnd= sqrt(f) * (C / K) * (1 - 1b-50);
First = sqrt(S) * (C / K);
FirstC = sqrt(S) * (C / K) * (1 - 1b-50);
sigma rnd= D / M * (1 + 1b-50);
Sigma = D / M;
SigmaC = D / M * (1 + 1b-50);
{ S in [1b-200, 1] /\ T in [1b-200, 1] /\ C in [1b-60, 1b60] /\ K in [1, 1b53] /\
  D in [1, 1b100] /\ M in [1b-100, 1b60]
  -> (level - Level) / Level in [-1b-40, 0] /\ (first - First) / First in [-1b-40, 0] /\
     (sigma - Sigma) / Sigma in [0, 1b-40] }
(level - Level) / Level ->
  (1 + (level - LevelC) / LevelC) * ((1 - 1b-50) * (1 - 1b-50)) - 1 { Level <> 0, LevelC <> 0 };
(first - First) / First -> (1 + (first - FirstC) / FirstC) * (1 - 1b-50) - 1
  { First <> 0, FirstC <> 0 };
(sigma - Sigma) / Sigma -> (1 + (sigma - SigmaC) / SigmaC) * (1 + 1b-50) - 1
  { Sigma <> 0, SigmaC <> 0 };
