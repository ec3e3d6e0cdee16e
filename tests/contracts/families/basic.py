"""Score function, importance sampling, truncation, PPO and GRPO."""

import asyncsim as sim

PAPERS = {
    "reinforce": (lambda: sim.methods.reinforce(), lambda p: p.sequence_sum(p.left_out() * p.live)),
    "full_is": (lambda: sim.methods.full_is(), lambda p: (p.sequence * p.left_out())[..., 0].mean((1, 2))),
    "full_is token": (lambda: sim.methods.full_is("token"), lambda p: p.sequence_sum(p.ratio * p.left_out())),
    "truncated_is": (
        lambda: sim.methods.truncated_is(cap=1.2),
        lambda p: p.sequence_mean(p.sequence.detach().clamp(max=1.2) * p.centered() * p.live),
    ),
    "truncated_is token": (
        lambda: sim.methods.truncated_is("token", cap=1.2),
        lambda p: p.token_mean(p.ratio.detach().clamp(max=1.2) * p.centered() * p.live),
    ),
    "ppo_clip": (lambda: sim.methods.ppo_clip(0.2, 0.1), lambda p: p.token_mean(p.clipped(p.centered(), 0.2, 0.1))),
    "ppo_clip proximal": (
        lambda: sim.methods.ppo_clip(0.1, 0.1, anchor="proximal"),
        lambda p: p.token_mean(p.clipped(p.centered(), 0.1, 0.1, p.drift)),
    ),
    "grpo": (lambda: sim.methods.grpo(), lambda p: p.sequence_mean(p.clipped(p.standardized(), 0.2, 0.2))),
}

CRITIC = {"a2c"}

CASES = {
    "full_is token": lambda: sim.methods.full_is("token"),
    "truncated_is token": lambda: sim.methods.truncated_is("token"),
    "grpo proximal": lambda: sim.methods.grpo(anchor="proximal"),
    "reinforce constant": lambda: sim.methods.reinforce(aggregator="constant", entropy=0.1),
    "reinforce critic": lambda: sim.methods.reinforce(critic=0.5, entropy=0.1),
    "a2c critic": lambda: sim.methods.a2c(critic=0.5, entropy=0.1),
    "grpo critic": lambda: sim.methods.grpo(critic=0.5, entropy=0.1),
    "ppo_clip critic": lambda: sim.methods.ppo_clip(critic=0.5, entropy=0.1),
}

KNOBS = {
    # At both ends of the ladder there is no brake: the reference is near 0, or the floor is 1.
    ("updates", "ess_step"): {"reference": [0.3, 0.7, 1.0], "floor": [0.0, 0.1, 0.2], "deadband": [3.0, 2.0, 1.0]}
}
