"""Number formats of matrix products: TF32 on a CPU and its switch on a GPU, and passes of other shapes as mismatch."""

import copy
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.policies import _language_network as networks
from tests.device.tagged import pretended
from tests.language.test_causal_lm import SHAPE, batch_of, drawn, ids, policy, view_of

CUDA = torch.device("cuda")
MATMUL = torch.backends.cuda.matmul


def exact(x):
    """TF32 by its definition: the significand, 11 bits with the leading one, rounded to nearest in float64."""
    mantissa, exponent = np.frexp(np.asarray(x, dtype=np.float64))
    return np.ldexp(np.rint(mantissa * 2.0**11) / 2.0**11, exponent)


def test_operands_have_ten_bits_behind_the_point():
    x = torch.randn(4000, generator=torch.Generator().manual_seed(0)) * 10.0 ** torch.arange(-20, 20).repeat(100)
    assert np.array_equal(networks.tf32(x).numpy(), exact(x))
    assert networks.tf32(torch.tensor([torch.inf, -torch.inf, 0.0])).tolist() == [torch.inf, -torch.inf, 0.0]
    assert torch.isnan(networks.tf32(torch.tensor(torch.nan)))
    wide = torch.randn(3, dtype=torch.float64)
    assert networks.tf32(wide) is wide
    # Planted: bits cut off, not rounded.
    assert not np.array_equal((x.view(torch.int32) & -0x2000).view(torch.float32).numpy(), exact(x))


@pytest.mark.parametrize("product", ["linear", "bias", "matmul", "batched", "einsum"])
def test_products_of_matrices_round_their_operands_and_nothing_else(product):
    """Forward and backward against the same product of rounded operands; planted: float32."""
    a, b = (torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    bias = torch.randn(8)
    run = {
        "linear": lambda a, b: torch.nn.functional.linear(a, b[0]),
        "bias": lambda a, b: torch.nn.functional.linear(a, b[0], bias),
        "matmul": lambda a, b: a[0] @ b[0],
        "batched": lambda a, b: a @ b,
        "einsum": lambda a, b: torch.einsum("bij,bkj->bik", a, b),
    }[product]
    live = a.clone().requires_grad_()
    with networks.products("tf32", torch.device("cpu")), torch.enable_grad():
        found = run(live, b)
        cotangent = torch.randn(found.shape, generator=torch.Generator().manual_seed(2))
        (gradient,) = torch.autograd.grad(found, live, cotangent)
    rounded = networks.tf32(a).requires_grad_()
    expected = run(rounded, networks.tf32(b))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    (other,) = torch.autograd.grad(expected, rounded, networks.tf32(cotangent))
    torch.testing.assert_close(gradient, other, rtol=1e-6, atol=1e-6)
    assert (found - run(a, b)).abs().max() > 1e-4


@pytest.mark.parametrize(("sampler", "compute"), [("tf32", "float32"), ("float32", "tf32"), ("tf32", "tf32")])
def test_tf32_is_near_float32_and_counts_as_mismatch(sampler, compute):
    """Attention and head included: log-probs differ by more than float32 and less than bfloat16 would."""
    made, plain = policy(exact=False, sampler=sampler, compute=compute), policy(exact=False)
    flat, seen = made.initial(1) * 4, ids(made)
    view = view_of(made, flat)
    action, log_prob = drawn(made, view, seen)
    batch = batch_of(seen, action)
    assert made.mismatched and set(made.compared(view, batch)) == {"scored_log_prob"}
    scored, reference = made.score(view, batch), plain.score(view, batch)
    gaps = {"tf32": (1e-4, 3e-2), "float32": (0.0, 1e-5)}
    for value, form in ((log_prob, sampler), (scored, compute)):
        low, high = gaps[form]
        assert low <= (value - reference).abs().max() < high
    ones = {"log_prob": torch.ones(action.shape)}
    pulled, other = (each.forward(view, batch, ("log_prob",)).pullback(ones) for each in (made, plain))
    assert torch.equal(pulled, other) is (compute == "float32")
    assert torch.nn.functional.cosine_similarity(pulled, other).item() > 0.999


def test_attention_rounds_its_operands():
    """Planted: only linear layers."""
    made = policy(exact=False, compute="tf32", sampler="tf32")
    flat, seen = made.initial(1) * 4, ids(made)
    view = view_of(made, flat)
    batch = batch_of(seen, drawn(made, view, seen)[0])
    right = made.score(view, batch)
    known = dict(networks._OPERANDS)
    try:
        for name in [name for name in known if "attention" in name]:
            del networks._OPERANDS[name]
        assert not torch.equal(made.score(view, batch), right)
    finally:
        networks._OPERANDS.update(known)


# A trainer in bfloat16.


def leaf_gradients(made, view, batch, cotangent):
    """The gradient `[P]` of each sample alone, in bfloat16 as the network gives it."""
    rows = []
    for n in range(batch.action.shape[2]):
        seen, action = batch.state[:, :, n : n + 1, 0], batch.action[:, :, n : n + 1]
        forward = made.forward(view, batch_of(seen, action), ("log_prob",))
        rows.append(forward.pullback({"log_prob": cotangent[:, :, n : n + 1]})[0])
    return torch.stack(rows)


def test_pieces_are_added_in_float32():
    """Bit for bit the float32 sum of the pieces' gradients in bfloat16; planted: a sum in bfloat16."""
    made = policy(exact=False, compute="bfloat16", micro_batch=1)
    flat, seen = made.initial(1) * 4, ids(made, ("12+34=",))[:, :, :1].repeat(1, 1, 8, 1)
    view = view_of(made, flat)
    action = torch.randint(1, 49, (*seen.shape[:3], 4), generator=torch.Generator().manual_seed(0))
    batch = batch_of(seen, action)
    cotangent = torch.randn(action.shape, generator=torch.Generator().manual_seed(1))
    pieces = leaf_gradients(made, view, batch, cotangent)
    assert torch.equal(pieces, pieces.bfloat16().float()), "each piece has bfloat16 numbers"
    expected, planted = torch.zeros_like(pieces[0]), torch.zeros_like(pieces[0]).bfloat16()
    for piece in pieces:
        expected += piece
        planted += piece.bfloat16()
    found = made.forward(view, batch, ("log_prob",)).pullback({"log_prob": cotangent})[0]
    assert found.dtype == torch.float32 and torch.equal(found, expected)
    assert not torch.equal(found, planted.float()) and not torch.equal(found, found.bfloat16().float())


def test_the_weights_that_are_trained_are_float32():
    """Steps far below the spacing of bfloat16 add up; planted: weights kept in bfloat16, which do not move at all."""
    run = spec(sampler="bfloat16", compute="bfloat16").replace(updates=20)
    begun = 4 * run.trained_policy.initial(1)[0].double().numpy()
    trace = sim.run(run.replace(initial=begun, update=sim.chain(sim.updates.adam(1e-6))))
    moved = trace.parameters[0] - begun
    assert 1e-5 < np.abs(moved).max() < 3e-5
    whole = torch.from_numpy(begun).bfloat16()
    stuck, far = whole, whole.abs() > 0.01
    for _ in range(20):
        stuck = stuck + (torch.from_numpy(moved) / 20).bfloat16()
    assert torch.equal(stuck[far], whole[far]) and bool(far.any())


# The switch of a GPU.


def settings():
    """How TF32 is set, by the newer and the older of torch's ways."""
    try:
        older = torch.get_float32_matmul_precision()
    except RuntimeError:
        older = "mixed"
    return getattr(MATMUL, "fp32_precision", None), older


@contextmanager
def kept():
    """Whatever a test sets is undone."""
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")
        if hasattr(MATMUL, "fp32_precision"):
            MATMUL.fp32_precision = "none"


SET = {
    "untouched": lambda: None,
    "on": lambda: setattr(MATMUL, "allow_tf32", True),
    "medium": lambda: torch.set_float32_matmul_precision("medium"),
    "newer": lambda: setattr(MATMUL, "fp32_precision", "tf32"),
}


@pytest.mark.parametrize("begun", [name for name in SET if name != "newer" or hasattr(MATMUL, "fp32_precision")])
@pytest.mark.parametrize("form", ["float32", "tf32", "bfloat16"])
def test_tf32_is_on_where_it_is_asked_for_and_then_as_it_was(begun, form):
    with kept():
        SET[begun]()
        before = settings()
        with pytest.raises(KeyError), networks.products(form, CUDA):
            assert MATMUL.allow_tf32 is (form == "tf32")
            raise KeyError
        assert settings() == before
        with networks.products("tf32", torch.device("cpu")):
            assert settings() == before, "a CPU has no such switch"


@pytest.mark.parametrize("form", ["float32", "tf32"])
def test_every_pass_on_a_gpu_sets_the_switch(form, monkeypatch):
    """Drawing, scoring and the pass backwards of a run whose user has TF32 on; planted: the user's setting."""
    seen = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(("forward", MATMUL.allow_tf32))
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(("backward", MATMUL.allow_tf32))
            return gradient

    from asyncsim.policies._pretraining import Block

    plain = Block.forward
    monkeypatch.setattr(Block, "forward", lambda self, x, mask, cache: Watched.apply(plain(self, x, mask, cache)))
    with kept(), pretended():
        MATMUL.allow_tf32 = True
        sim.run(spec(sampler=form, compute=form).replace(device="cuda"))
        assert MATMUL.allow_tf32 is True
    assert {way for way, _ in seen} == {"forward", "backward"} and {on for _, on in seen} == {form == "tf32"}


# Passes of other shapes.


def spec(**given):
    made = sim.policies.causal_lm("char", recipe=SHAPE, **given)
    return sim.Spec(
        sim.tasks.arithmetic(digits=1, prompts=4, horizon=4), sim.schedules.fixed(1, groups_per_batch=2),
        sim.methods.reinforce(sim.advantages.offset(1.0)), sim.chain(sim.updates.sgd(0.01)), made,
        samples_per_group=2, updates=2, replicates=1, diagnostics=["kl_mismatch", "staleness_variance"],
    )  # fmt: skip


@pytest.mark.parametrize(("form", "differs"), [("float32", True), ("float64", False)])
def test_off_the_cpu_float32_against_float32_is_mismatch(form, differs, monkeypatch):
    """Token by token products have other shapes than whole texts, hence other rounding. Planted: equal formats alone.

    Here the device is one in name only, so the numbers agree; what counts is that the trainer's are recorded.
    """
    from asyncsim.policies.causal_lm import CausalLM

    asked, plain = [], CausalLM.compared

    def compared(self, view, batch):
        found = plain(self, view, batch)
        asked.append(sorted(found))
        return found

    monkeypatch.setattr(CausalLM, "compared", compared)
    run = spec(sampler=form, compute=form)
    cpu = sim.run(run)
    assert not asked
    with pretended():
        device = sim.run(run.replace(device="cuda"))
    assert bool(asked) == differs and all(names == ["scored_log_prob"] for names in asked)
    assert np.array_equal(cpu.parameters, device.parameters)
    assert not policy(exact=False).mismatched


def test_a_copy_of_a_bound_network_keeps_its_format():
    made = policy(exact=False)
    bound, _ = made.model.bound(made.initial(1)[0], "tf32")
    assert getattr(copy.copy(bound), networks.FORM) == "tf32" and not hasattr(made.model.network, networks.FORM)
