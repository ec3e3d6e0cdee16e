r"""The second moment of a sequence ratio is a product over tokens.

`E W^2` of a sequence is `(1 + chi^2)^T` for independent tokens and a matrix product for Markov tokens

Independent equal tokens: E W^2 = (1 + chi^2)^T; a row of logits per position: prod_t (1 + chi_t^2); tokens that
follow the previous one: E W^2 = v M^{T-1} 1 with v_a = pi_a^2/mu_a at the start and M_{ba} = pi_{ba}^2/mu_{ba} after
token b. Derivation: sum W^2 mu over sequences and factor from the last token backwards. Domain: softmax policies of
full support, at most 2^20 sequences (the second route enumerates them). Source: arXiv 1511.01437 for the product.
"""

import math

from asyncsim.claims._bandit import SequencePair, chained, enumerate_sequences, softmax
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, lab, sequence_point, sim


class SequenceProduct(SequencePair, Claim):
    kind, source = "identity", "arXiv 1511.01437; Markov form derived"
    through = "oracle"

    def predict(s, power: int = 2) -> dict[str, float]:
        pi, mu = softmax(s.current_logits), softmax(s.behavior_logits)
        return {"second_moment": float(chained(s, pi**power / mu ** (power - 1)))}

    def check(s) -> dict[str, float]:
        sequences = enumerate_sequences(s)
        return {"second_moment": math.fsum(sequences.mass * sequences.ratio**2)}

    wrong = {"moment taken under the current policy": lambda s: s.predict(3)}

    points = (sequence_point("iid", 6, 1), sequence_point("position", 3, 3), sequence_point("markov", 5, 4))
    more = (sequence_point("markov", 8, 4),)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        signal = lab.step_of(lab.planted(point, sim.methods.full_is(), plant), point)
        second = 1.0 + sim.ratios.chi_square(signal.sequence_log_ratio, signal.step_mass).item()
        return {"second_moment": Estimate(second, tolerance=lab.ROUNDING * second)}

    defects = {"last token left out": lambda: (lab.with_policy(lab.ShortProduct), sequence_point("markov", 5, 4))}
