"""Mistakes that people made while they worked: each message names the field, the value, the bound and what to do."""

import copy
import dataclasses
import inspect
import json
import operator
import pickle
import re
import shlex
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pandas
import pytest
import torch
import typer

import asyncsim as sim
from asyncsim.app import parsing, sweeping, wording
from asyncsim.app.cli import app
from asyncsim.base import answers, calls, checks, measured, plugins
from asyncsim.base.laws import as_law
from asyncsim.sweeping import advising
from asyncsim.sweeping.advising import FIELDS
from tests.cli.test_cli import call, refusal, told
from tests.refusals import refused

BANDIT = sim.tasks.softmax_bandit()
SPEC = sim.Spec(BANDIT, sim.schedules.fixed(0), sim.methods.reinforce(), sim.chain(sim.updates.sgd(0.1)))
TRACE = sim.run(SPEC.replace(updates=1, replicates=2), progress=False)
RECORDED = sim.callbacks.Recorded(0, 1, 0, 1, np.arange(2), {"ess": np.ones(2)})
SAMPLES = pandas.DataFrame({"prompt_id": range(4), "param_version_start": 0, "start_time": 0.0, "step": range(4)})
TABLE = pandas.DataFrame({"step": range(40), "reward": 0.5, "timing_s/step": 40.0, "timing_s/gen": 10.0})
TABLE["response_length/mean"], TABLE["response_length/max"] = 1000.0, 3000.0
RISING = TABLE.assign(reward=TABLE["step"] / 40.0)
SLOW = {
    "publish_every": 1,
    "tokens_per_second": 4,
    "prompts_per_batch": 4,
    "samples_per_prompt": 1,
    "slots_per_machine": 8,
}
SLOW |= {"machines": 1, "staleness_limit": 1, "response_lengths": 1000}
SWEPT = "sweep --grid staleness=0,4"
TWO = "compare method=grpo method=ppo-clip"
AREAL = "timeline areal --set max_head_offpolicyness=4 --set consumer_batch_size=8 --set load=1.5"

# Of the command line: what people type, and the words that it is short for.
SHORT = {
    "run --set method=my.py:loss --set advantages_from=batch": "run --method=my.py:loss --advantages-from=batch",
    "run --lr 0.1 --updates=3": "run --set lr=0.1 --updates=3",
    "run --task.arms 3 --adam.lr=0.1 --link adam": "run --set task.arms=3 --set adam.lr=0.1 --link adam",
    "run --staleness 4 --lr": "run --staleness 4 --lr",
    f"{TWO} --task gym --coupled --seed 2": f"{TWO} --set task=gym --set coupled=true --seed 2",
    f"{TWO} --staleness 0,4 --advantage gae": f"{TWO} --along staleness=0,4 --set advantage=gae",
    "compare --method grpo --method=cispo --smallest 0.1": "compare method=grpo method=cispo --smallest 0.1",
    "compare a b --link clip-norm --link adam": "compare a b --set link=clip-norm,adam",
    "sweep --staleness 0,4 --lr 0.1 --at x=1": "sweep --grid staleness=0,4 --set lr=0.1 --at x=1",
    "forecast a.yaml --method grpo --lr 1": "forecast a.yaml --method grpo --lr 1",
    "judge a.csv b.csv --task x": "judge a.csv b.csv --task x",
    "sweep --lr 0.01:1e1:6 --staleness 0 4": "sweep --grid lr=0.01:1e1:6 --grid staleness=0,4",
    f"{TWO} --model rate=30 --system.length lognormal:1:1": (
        f"{TWO} --set model.rate=30 --set system.length=lognormal:1:1"
    ),
    f"advise --config {__file__} --seed 1": f"advise {__file__} --seed 1",
    f"run --spec {__file__} --log live": f"run {__file__} --log live",
    f"run --log {__file__}": f"run --log {__file__}",
    "advise --config nowhere.yaml": "advise --config nowhere.yaml",
}

# Of the command line: words, the field and value of the message, its remedy.
TYPED = {
    "a value of another arm's system": (
        "compare system=areal system=roll_single_turn --smallest 1 --set system.max_head_offpolicyness=4 "
        "--set system.consumer_batch_size=8 --set system.length=4 --set system.load=1.5",
        "argument = 'max_head_offpolicyness'",
        '"system=areal system.max_head_offpolicyness=4"',
    ),
    "hours of GPUs": ("advise s.yaml --gpu-hours", "'--gpu-hours'", "slots_per_machine are machine-hours"),
    "idle time as a metric": (f"{TWO} --smallest 1 --metric idle", "metric = 'idle'", "asyncsim advise FILE"),
    "collapses as a metric": (f"{TWO} --smallest 1 --metric diverged", "metric = 'diverged'", "write --over collapse"),
    "a trainer and a method": ("export trl grpo --for trl", "arguments = 'grpo'", "export METHOD --for trl"),
    "numbers behind an arm": ("compare 4 16 --smallest 1", "arm 4 = '4'", "joined by commas, as --staleness 0,4,16"),
    "a class of a loss": ("conformance own.py:Cut --set cap=2", "--set = 'cap'", "write loss = Cut(...) in your file"),
    "a loss of numpy": ("conformance own.py:arrays", "a loss that runs", "write it in torch"),
    "a loss without its settings": ("conformance own.py:set --adapter verl", "NoneType", "--set 'adapter.config={"),
    "an installed style": ("conformance own.py:ppo --adapter trl", "--adapter = 'trl'", "leave --adapter out"),
    "a style of a run": ("run --method own.py:ppo --adapter verl", "'--adapter'", "sim.conformance.adapters.verl(loss"),
    "a schedule of a link": ("run --set adam.schedule=cosine --link adam", "'schedule'", "add --link lr-schedule"),
    "a schedule in front": ("run --link lr-schedule --link adam --set adam.lr=1", "links = ", "--link adam --link lr"),
    "an axis of a sweep": ("sweep --grid lr=1,2 --x lr", "option = '--x'", "leave it out: --plot"),
    "a folder as a table": ("sweep --grid lr=1,2 --csv res/", "--csv = 'res/'", "write --csv res/FILE"),
    "a column that nothing reads": ("diagnose a.csv --columns norm=reward", "columns = 'norm'", "leave reward out if"),
    "a task as an environment": ("run --task gym --set task.id=bandit", "id = 'bandit'", "is a task of asyncsim"),
    "methods as an option": (f"{TWO} --methods grpo,gspo", "option = '--methods'", "as an arm: asyncsim compare grpo"),
    "a method by another name": ("compare grpo ppo --smallest 1", "arm = 'ppo'", "write ppo_clip"),
    "settings behind commas": ("run --set a=1,b=2", "--set = 'a=1,b=2'", "write --set a=1 --set b=2"),
    "points behind a comma": ("verify ess/limit --at a=1,b=2", "--at = 'a=1,b=2'", "write --at a=1 --at b=2"),
    "methods of a run": ("run --method grpo,cispo", "method = 'grpo,cispo'", "compare method=grpo method=cispo"),
    "columns apart": ("diagnose a.csv --columns kl_k3=reward --columns c=d", "columns = 'c'", "leave d out"),
    "a preset of a sweep": ("sweep areal --grid max_staleness=1,2", "arguments = 'areal'", "write --system areal"),
    "a claim of no such name": ("verify ess/decay", "'ess/decay'", "of this family: ess/clamp-floor, "),
    "an arm of a judgment": ("judge A=a.csv B=b.csv", "path = 'A=a.csv'", "or a.csv alone if it is a log"),
    "a limit of staleness of a forecast": ("forecast a.yaml --staleness 4", "'--staleness'", "--set staleness_limit=4"),
    "a loss of each token": ("conformance own.py:each", "loss = (8, 6)", "(loss * mask).sum() / mask.sum(), or use an"),
    "a loss without a mask": ("conformance own.py:plain", "argument for mask", "add an argument mask, and return the"),
    "an optimizer": ("run --update adam", "option = '--update'", "write --link adam --set adam.lr=0.01"),
    "a percentile": ("timeline areal --percentiles 99", "'--percentiles'", "the 99th percentile is printed"),
    "a system of telemetry": ("diagnose a.csv --system areal", "'--system'", "names the distribution to compare with"),
    "the rate without its link": ("run --set rate=0.1", "--set = 'rate'", "write --set sgd.lr=0.1"),
    "of another link": ("run --link adam --set learning-rate=1", "--set = 'learning_rate'", "--set adam.lr=1"),
    "letters swapped": ("run --method gpro", "method = 'gpro'", "one of 55 names, grpo, "),
    "a reward of a text task": ("run --task text --reward r.py:f", "'--reward'", "write --set task.reward="),
    "collapse of settings": ("sweep --diagnostics collapse --grid staleness=0,4", "'--diagnostics'", "--over c"),
    "a prediction of collapse": ("run --warn ess", "'--warn'", "sim.predict(sim.run(spec), ['ess'], lead=[10])"),
    "a list of losses": ("compare --losses grpo,cispo", "'--losses'", "asyncsim compare grpo cispo"),
    "arms behind commas": ("compare grpo,cispo", "arm = 'grpo,cispo'", "write grpo cispo, without"),
    "an arm as a call": ("compare 'gspo(low=0.1)' grpo --smallest 1", "arm = ", 'write "method=gspo method.low=0.1"'),
    "an arm's method": ("compare 'gspo: low=0.1' grpo --smallest 1", "arm = ", '"method=gspo method.low=0.1"'),
    "a spec to be written": ("run no.yaml", "file = 'no.yaml'", "asyncsim run --print-spec > no.yaml writes one"),
    "a loss as a file": ("run my.py:loss", "file = 'my.py:loss'", "write --method my.py:loss"),
    "a default method": ("sweep --grid method.kl=0,1", "'kl'", "reinforce is the default: add --method grpo, which"),
    "thousands": ("sweep --grid staleness=0,4 --set updates=2k", "updates = '2k'", "write 2000"),
    "no smallest effect": (TWO, "smallest must be given", "add --smallest 0.01: "),
    "a list as length": (f"{AREAL} --set length=[3,5]", "length = [3, 5]", "write empirical:3:5:8"),
    "an ESS of another name": ("run --diagnostics ess_sequence", "'ess_sequence'", "did you mean ess?"),
    "a penalty as metric": ("run --diagnostics k3", "diagnostics = 'k3'", "k3 is a penalty: see `asyncsim list pen"),
    "penalties of a method": ("run --set method.penalties=k3", "argument = 'penalties'", "write --penalty NAME"),
    "an environment of nowhere": ("run --task gym --set task.id=Lane-v0", "id = 'Lane-v0'", "is module:Lane-v0"),
    "a class as a task": ("run --task argparse:Namespace", "task = 'argparse", "--task gym --set task.id=argparse:"),
    "a schedule as a rate": ("run --link adam --set adam.lr=cosine", "lr = 'cosine'", "a schedule is a link behind it"),
    "a schedule as a setting": ("run --set warmup=10", "--set = 'warmup'", "add --link sgd --link lr-schedule "),
    "realizations of one setting": (f"{AREAL} --realizations 4", "--realizations = 4", "add --sweep KNOB=V1,V2"),
    "a schedule as a link": ("run --link adam --link warmup --set adam.lr=1", "'warmup'", "did you mean lr_schedule?"),
    "a metric misspelt": (f"{TWO} --metric trained_retrn --smallest 0.1", "'trained_retrn'", "mean trained_return?"),
    "an option as a setting": ("run --set seeds=3", "--set = 'seeds'", "write --replicates 3"),
    "a name as a kind": ("list grpo", "kind = 'grpo'", "write asyncsim list methods grpo"),
    "a distribution as a kind": ("list lognormal", "kind = 'lognormal'", "length=lognormal:1000:0.8 (mean, standard"),
    "a claim in words": ("verify low-ess-predicts-collapse", "'low-ess-predicts-collapse'", "2602.17616/ess-predicts"),
    "no claim at it": ("verify vcpo --at staleness=8 --at horizon=4", "--at staleness=8", "(staleness: none; horizon:"),
    "a page as a command": ("explorer", "no command explorer", "open docs/explorer.html"),
    "a maximum to try": ("advise s.yaml --max-staleness 4", "'--max-staleness'", "--set staleness_limit=0,1,2,3,4"),
    "a name that begins so": ("run --diagnostics max_weight", "'max_weight'", "did you mean max_weight_share?"),
    "a paper as a kind": (
        "list m2po",
        "kind = 'm2po'",
        "m2po_areal or asyncsim list methods m2po_mask or asyncsim list papers m2po",
    ),
    "a boundary as a command": ("boundary", "no command boundary", "write sim.boundary(spec, 'staleness', low=0"),
    "a batch of devices": (
        "timeline trl --set per_device_train_batch_size=8",
        "'per_device_train_batch_size'",
        "trl is per_device_train_batch_size * gradient_accumulation_steps * devices",
    ),
    "rollouts that go on": (f"{AREAL} --model partial_rollouts=false", "'partial_rollouts'", "with --model mode=drain"),
    "an option that goes on": (f"{AREAL} --partial-rollout false", "'--partial-rollout'", "with --model mode=drain"),
    "groups of several sizes": (
        "timeline trl --set samples_per_step=8 --set length=1 --set load=1 --sweep num_generations=4,8",
        "--sweep = 'num_generations'",
        "run the command for each value, with --set",
    ),
    "a trainer as a kind": ("list verl", "kind = 'verl'", " or asyncsim list systems verl"),
    "a unit as an option": ("log a.csv --unit publishes", "'--unit'", "write --set unit=publishes"),
    "a preset of a diagnosis": ("diagnose a.csv --preset verl", "'--preset'", "leave it out"),
    "values that should fall": ("judge a.csv b.csv --lower-better", "'--lower-better'", "write --better lower"),
    "a seed of a judgment": ("judge a.csv b.csv --seed 3", "'--seed'", "draws nothing: leave it out"),
    "a unit of a calibration": ("calibrate a.csv --preset verl --set unit=publishes", "'unit'", "asyncsim log"),
    "a name as a part": ("run --method grpo --set grpo.low=1", "part = 'grpo'", "write --set method.low=1"),
    "a question as a command": ("staleness log.csv", "no command staleness; ", "asyncsim log LOG.csv"),
    "a log as a schedule": (
        "run --task softmax-bandit --method grpo --schedule log.csv",
        "schedule = 'log.csv'",
        "write --schedule replay --set schedule.path=log.csv",
    ),
    "columns of a replay": (
        "run --task softmax-bandit --method grpo --schedule replay --columns a=b",
        "option = '--columns'",
        "--set schedule.columns=OURS=THEIRS",
    ),
    "a bandit of no kind": ("run --task bandit --method grpo", "task = 'bandit'", "did you mean softmax_bandit?"),
    "names with a space": ("run --diagnostics ess kl", "file = 'kl'", "separate several names by commas"),
    "a single arm": ("compare method=grpo --smallest 0.1", "arms = ['method=grpo']", "write for example method=grpo"),
    "an option of Python": (f"{TWO} --smallest 0.1 --tune x", "tune = 'x'", "--tune none keeps the arms as they are"),
    "what stands alone": ("verify --claim ess/limit", "option = '--claim'", "write its value alone"),
    "a game as a task": ("run --task cartpole", "task = 'cartpole'", "write --task gym --set task.id=ID, as CartPole"),
    "another word for a card": ("run --device gpu", "device = 'gpu'", "did you mean cuda?"),
    "no module is a policy": ("run --policy torch.nn:Identity", "policy = 'torch.nn:I", "--policy module --set policy"),
    "a rate in a name": ("run --link adam:0.01", "link = 'adam:0.01'", "write --link adam --set adam.lr=0.01"),
    "settings in a name": (
        "run --method 'sapo positive=2 negative=3'",
        "must be one name alone",
        "write --method sapo --set method.positive=2 --set method.negative=3",
    ),
    "no setting of the name": (
        "run --method 'sapo level=token'",
        "must be one name alone",
        "write --method sapo --set method.KEY=VALUE with a KEY of positive",
    ),
    "a call of Python": ("run --method tis", "'tis'", "in Python sim.methods.truncated_is(level='token')."),
    "a call as a name": ("run --link adam(lr=0.1)", "link = 'adam(lr=0.1)'", "write --link adam --set adam.lr=0.1"),
    "a coefficient in a name": ("run --penalty k3=0.1", "penalty = 'k3=0.1'", "write --penalty k3 --set"),
    "a clip in a name": ("run --method grpo:0.2", "method = 'grpo:0.2'", "write --method grpo --set method.low=0.2"),
    "links of an arm": ('compare "link=sgd link=scale" grpo --smallest 1', "'link=scale'", "write link=sgd,scale"),
    "a rate of links behind a comma": ("run --link clip-norm,adam --learning-rate 1", "rate'", "--set adam.lr=1"),
    "a rate of the shared link": (f"{TWO} --smallest 1 --link adam --learning-rate 1", "rate'", "--set adam.lr=1"),
    "a rate of two links": ("run --link sgd --link adam --learning-rate 1", "'", "sgd.lr=1 or --set adam.lr=1"),
    "seconds of a schedule": (
        "compare staleness=4 staleness=1 --over seconds --smallest 1",
        "system of arm staleness=4",
        "use --system NAME instead, or --over mean",
    ),
    "settings of a claim": ("verify ess/limit --set clamp=1", "'--set'", "write --at clamp=1, which measures one"),
    "a paper with its archive": ("verify arXiv:2603.01501 --at lag=1", "'--at lag=1'", "one of alignment/"),
    "a place in a paper": ("verify 2603.01501/alignment --at lag=1", "'--at lag=1'", "one of alignment/lag1-"),
    "a place in a family": ("verify ess --at clamp=1", "'--at clamp=1'", "verify CLAIM --at clamp=1, and for"),
    "a place in all claims": ("verify --at clamp=1", "'--at clamp=1': must be used with one claim", "for CLAIM one of"),
    "an hour as horizon": (f"{TWO} --smallest 1 --over seconds --horizon 1h", "= '1h'", "write --horizon 3600 for 1h"),
    "a duration as target": (f"{TWO} --smallest 1 --target 90s", "= '90s'", "in its own unit: Value to reach"),
    "days of a judgment": ("judge a.csv b.csv --over seconds --at 2d", "= '2d'", "write --at 172800 for 2d"),
    "weeks in a system": ("advise slow.json --set train_seconds=1.5w", "= '1.5w'", "a positive number or the text"),
    "minutes of a preset": (f"{AREAL} --set length=30min", "length = '30min'", "write 1800, the seconds of 30min"),
    "values of a system": ("advise slow.json --set train_seconds=1,2", "s=1,2'", "as --set train_seconds=1;"),
    "numbers of updates": ("advise slow.json --updates 5,9", "= '5,9'", "give one, as --updates 5; run"),
    "a limit of the shared system": (
        "compare limit=1 limit=4 --system areal --smallest 1",
        "arm limit=1 = 'limit'",
        'write "system.max_head_offpolicyness=1"',
    ),
    "a limit without a system": ("compare limit=1 limit=4 --smallest 1", "= 'limit'", 'write "staleness=1"'),
    "a preset in capitals": ("timeline AReal", "system = 'AReal'", "did you mean areal?"),
    "a link as a loss": ("conformance own.py:Slow", "not a link", "asyncsim run --link own.py:Slow trains with it"),
    "a link that is exported": ("export own.py:Slow --for verl", "method = 'own.py:Slow'", "run --link own.py:Slow"),
    "a link as a method": ("run --method own.py:Slow", "a method, not a link", "write --link own.py:Slow"),
    "a word for a number": ("run --link own.py:Slow --set Slow.strength=abc", "strength = 'abc'", "give a number"),
    "a link's sum": ("run --diagnostics ess_step_ess", "ess_step_ess", "; leave it out: each run with --link ess_step"),
    "a number of a link as metric": (
        f"{TWO} --smallest 1 --metric norm_before_clip",
        "'norm_before_clip'",
        "add --link clip_norm, which reports it, to every arm",
    ),
    "a number that nobody reports": (f"{TWO} --smallest 1 --metric mine", "'mine'", "or add the link that reports it"),
    "a rule as metric": ("run --diagnostics own.py:ess", "'own.py:ess': must be names", "put @metric(outputs="),
    "a metric of one's own": (f"{SWEPT} --metric own.py:ess", "'own.py:ess'", "asyncsim run --diagnostics my.py:f"),
    "CSV as JSON": ("run --json x.csv", "--json = 'x.csv': must be the path of a JSON file", "write --json NAME.json"),
    "JSON as a table": (f"{SWEPT} --csv x.json", "--csv = 'x.json': must be the path of a CSV", "write --json x.json"),
    "a trainer of two presets": ("timeline slime", "'slime'", "did you mean slime_train_async or slime_fully_async?"),
    "names in a text of lengths": (
        f"{AREAL} --set length=@lengths.txt",
        "line 1 of lengths.txt = 'length': must be numbers",
        "remove the line",
    ),
    "a unit of columns": ("log a.csv --columns a=b*0.001", "columns[a] = 'b*0.001'", "multiply the column in the"),
    "a setting of one's loss": ("run --method own.py:set --set cap=2", "--set = 'cap'", "write --set method.cap=2"),
    "a replay": ("replay a.csv", "no command replay; ", "write asyncsim log LOG.csv"),
    "a policy of a module": ("run --policy modul", "policy = 'modul'", "mlp, module, quadratic"),
    "an argument of an environment": ("run --task gym --set task.wind=3", "'wind'", 'task.settings={"wind": VALUE}'),
    "numbers of an environment": ("run --task gym --set policy.actions=3", "'actions'", "has observation 4, actions 2"),
    "a return": ("run --diagnostics return", "diagnostics = 'return'", "did you mean trained_return?"),
    "no critic": ("run --method grpo --advantage gae", "advantage = 'gae'", "with a critic, policy.critic=true"),
    "a task without data": ("run --task text", "text needs data, which must be given", "right answers unless"),
    "Python's functions": ("evaluate x", "no command evaluate; ", "in Python write sim.evaluate(...)"),
    "a citation": ("cite", "no command cite; ", "CITATION.cff"),
    "a kind as a command": ("methods", "no command methods; ", "write asyncsim list methods"),
    "a name as a command": ("grpo", "no command grpo; ", "write asyncsim list methods grpo"),
    "a command of another group": ("results list", "no command list; ", "did you mean ls?"),
    "a page of no kind": ("diagnose x.csv --html x.pdf", "--html = 'x.pdf'", "choose one of them"),
    "slots of the event model": (f"{AREAL} --set slots=8", "'slots'", "decodes at once; write --model slots"),
    "slots of a run": ("run --system areal --set system.slots=8", "'slots'", "write --set model.slots=8"),
    "a limit as an option": ("timeline areal --staleness 4", "= '--staleness'", "write --set max_head_offpolicyness=4"),
    "slots as an option": ("timeline areal --slots 9", "option = '--slots'", "write --model slots=9"),
    "nothing": ("timeline", "preset must be given", "PRESET: a system; see `asyncsim list systems`"),
    "grid of all": (f"{TWO} --set samples=4,8 --smallest 0.1", "--set = 'samples=4,8'", "write --along samples=4,8"),
    "spaces": (f"{TWO} --smallest 1 --along staleness=0 4 16", "--along = '4 16'", "--along staleness=0,4,16"),
    "a reward as metric": (f"{TWO} --metric reward --smallest 0.1", "metric = 'reward'", "take trained_return, of the"),
    "two methods": ("run --method a2c --method grpo", "--method = 'a2c, grpo'", "compare method=a2c method=grpo"),
    "two limits": ("timeline areal --seed 1 --seed=2", "--seed = '1, 2': must be given once", "give one of them"),
    "a schedule of rates": ("run --lr-schedule cosine", "= '--lr-schedule'", "add --link sgd --link lr-schedule --set"),
    "its argument alone": ("run --set lr_schedule.decay=x", "= 'lr_schedule'", "write --link sgd --link lr_schedule"),
    "it alone": ("run --link lr_schedule", "link = 'lr_schedule'", "write --link sgd --link lr-schedule"),
    "a penalty's argument alone": ("run --set k3.to=x", "part = 'k3'", "write --penalty k3"),
    "a metric as an option": ("run --ess", "option = '--ess'", "write --diagnostics ess"),
    "a log of nowhere": ("log no.csv --set unit=s", "path = 'no.csv'", "give the log that the run wrote"),
    "a clip of verl": ("run --method gspo --set method.eps_clip=0.2", "'eps_clip'", "write --set method.low=0.2"),
    "a setting without a value": ("run --set task.arms", "--set = 'task.arms'", "write task.arms=VALUE"),
    "an option without a value": ("run --json", "--json = None", "write --json FILE: Write the result"),
    "a class of nowhere": ("verify MyClaim", "claim = 'MyClaim'", "write my.py:MyClaim"),
    "samples of a group": (f"{AREAL} --set length=3 --set n=8", "argument = 'n'", "write --samples=8"),
    "a sentence as a claim": ("verify low-ess-predicts-collapse", "claim = 'low-ess", "Your own: docs/conjecture.md"),
    "a claim misspelt": ("sweep --grid staleness=0,1 --claim ess/limits", "claim = 'ess/limits'", "mean ess/limit?"),
    "several values": ("run --staleness 0,8", "= '0,8': must be a valid integer", "sweep --grid staleness=0,8"),
    "a claim's other place": ("verify own.py/Mine", "claim = 'own.py/Mine'", "write own.py:Mine, its file"),
    "a field of a system": ("advise x.yaml --staleness 4", "= '--staleness'", "write --set staleness_limit=0,1,2,3,4"),
    "a limit of no system": ("timeline one-step-off --set limit=4", "= 'limit'", "is 1 version by construction"),
    "a description that is missing": ("timeline x.yaml", "= 'x.yaml'", "must be an existing file"),
    "a trainer misspelt": ("advise trk", "system = 'trk': must be one of verl,", "name a trainer, or a JSON or YAML"),
    "a log as a description": ("advise a.csv", "= 'a.csv'", "make one: asyncsim calibrate a.csv --preset NAME"),
    "other switch": ("timeline areal --set partial_rollout=true", "'partial_rollout'", "openrlhf and open_instruct"),
    "slots of a sweep": (f"{AREAL} --set length=3 --sweep slots=8,16", "--sweep = 'slots'", "model.slots=8,16"),
    "both ways": (
        "timeline openrlhf --set partial_rollout_enable=true,false --set rollout_batch_size=8 --set length=3",
        "partial_rollout_enable = (True, False): must be True or False",
        "write --sweep partial_rollout_enable=true,false for several values",
    ),
    "tokens of no file": ("diagnose a.csv --tokens", "--tokens = None", "write --tokens FILE: Second file: one row"),
    "a KL without a log": ("diagnose --kl 0.02", "option = '--kl'", "ratio/gaussian-shift --at k3=0.02 --at tokens=T"),
    "a variance of logits": ("verify ess/limit --at variance=1", "'variance'", "gaussian-shift --at variance=1"),
    "a loss like another name": ("conformance own.py:gae --algo grpo", "option = '--algo'", "write --like grpo"),
    "a file and a function": ("conformance own.py gae", "arguments = 'gae'", "write own.py:gae"),
    "a function as in pytest": ("conformance own.py::gae", "target = 'own.py::gae'", "write own.py:gae"),
    "a kind by another name": ("conformance own.py:gae --kind gae", "--kind = 'gae'", "write --kind advantage"),
    "a paper's own spelling": ("verify AReaL", "claim = 'AReaL'", "the page paper_figures/systems.md of"),
    "a rate that is stable": ("verify stable-rate --at staleness=8", "'stable-rate'", "boundary --at staleness=8, the"),
    "a KL of tokens": ("verify k3 --at k3=0.01 --at tokens=9", "'k3'", "gaussian-shift --at k3=0.01 --at tokens=9"),
    "a family's variance": ("verify ess --at variance=0.3", "used with one claim", "gaussian-shift --at variance=0.3"),
    "a method's formula": ("verify methods/vtrace", "'methods/vtrace'", "write asyncsim verify estimator/v-trace for"),
    "a trainer as a log": ("log verl", "path = 'verl'", "`asyncsim list logs` says what trainers log"),
    "seeds without a spread": ("judge --within 0.01", "b = None", "without logs add --seed-spread VALUE"),
    "how many": ("seeds --difference 0.01", "no command seeds; ", "judge --seed-spread VALUE --within 0.02"),
    "a trainer without its fields": ("advise verl_fully_async", "slots_per_machine, tokens", "given; try asyncsim adv"),
    "percent of a load": (f"{AREAL[:-3]}150% --set length=1", "load = '150%'", "write 1.5"),
    "a unit behind a number": ("advise slow.json --set tokens_per_second=40tok/s", "= '40tok/s'", "write 40"),
    "milliseconds": (f"{AREAL} --set length=5ms", "length = '5ms'", "write 0.005, the seconds of 5ms"),
    "one for several": ("verify staleness/stability-boundary --at curvatures=1", "curvatures", "--at 'curvatures=[1]'"),
    "a value without a name": ("verify ess/limit --at 0.5", "--at = '0.5'", "write --at PARAMETER=0.5, of `asyncsim"),
    "a method as a claim": ("verify gspo", "claim = 'gspo'", "it is a method: see `asyncsim list methods gspo`"),
    "long rows": ("verify ess/limit --at horizon=512", "horizon", "most 198 tokens for 3 actions"),
    "an advantage": ("conformance math:fsum --like gae", "--like = 'gae': must be a method", "add --kind advantage"),
    "the name of a line break": (
        r"run --task text --set task.data=rows.jsonl --set task.prompt=q --set task.reward=exact --set 'task.stop=\n'",
        "must be a line break, not its name",
        "give stop=",
    ),
    "words of an arm without quotes": (
        f"{TWO} method.epsilon=0.1 --smallest 1",
        "argument = 'epsilon'",
        "quote the words of one arm, as 'method=NAME method.epsilon=0.1'",
    ),
    "a table of a timeline": (f"{AREAL} --set length=3 --save t.csv", "--save = 't.csv'", "a path ending in .npz"),
    "ends of a grid": ("sweep --grid lr=1e-3:1e-1", "--grid = 'lr=1e-3:1e-1'", "=V1,V2,... or "),
    "an arm without its system": (f"{TWO} --set system.load=1 --smallest 1", "part = 'system'", "--set system=NAME"),
    "seeds": ("run --seed 0,1,2", "--seed = '0,1,2'", "give one; --replicates takes their number"),
    "a rate of another optimizer": ("run --set adam.lr=0.1", "part = 'adam'", "write --link adam"),
    "a network": ("run --task gym --policy own.py:net", "policy = 'own.py:net'", "--set policy.make=own.py:net"),
    "a class of environments": (
        "run --task gym --set task.id=own:Mine",
        "id = 'own:Mine'",
        "One of your own is a class as own.py:Mine",
    ),
    "eta": (f"{AREAL} --set eta=4", "argument = 'eta'", "write --set max_head_offpolicyness=4"),
    "names that differ": ("judge a.csv b.csv", "metric of b.csv = 'reward'", "what it is: --columns reward=THEIRS"),
    "names of other scopes": ("judge a.csv c.csv", "metric of c.csv", "--columns reward=critic/score/mean"),
    "a comma in a number": ("diagnose d.csv", "row 1 = '0,4'", "with a point as 0.5"),
    "a file as a grid": ("sweep conf.yaml", "grid must be given", "a file of one run: asyncsim run conf.yaml"),
    "a grid alone": ("sweep staleness=0,4", "grid must be given", "add --grid staleness=0,4"),
    "a grid with a space": ("sweep --grid staleness 0,4", "'0,4'", "write --grid staleness=0,4"),
    "several limits": (f"{AREAL.replace('=4', '=0,2', 1)} --set length=3", "ness=0,2'", "--sweep max_head_offpolicyne"),
    "limits alone": ("timeline areal load=1,2", "arguments = 'load=1,2'", "write --sweep load=1,2"),
    "a limit alone": ("timeline areal load=1", "arguments = 'load=1'", "write --set load=1"),
    "a word as a file": ("run staleness=4", "file = 'staleness=4'", "write --staleness 4"),
    "an argument as a file": ("run task.arms=4", "file = 'task.arms=4'", "write --set task.arms=4"),
    "a space in a setting": ("run --set task.arms =4", "'=4'", "write NAME=VALUE without spaces"),
    "a store as a sweep": ("results show w/s9", "name = 'w/s9'", "write --store w/s9"),
    "a store as an argument": ("results ls w/s9", "arguments = 'w/s9'", "write --store w/s9"),
    "a store of nowhere": ("results ls --store w/s9", "store = 'w/s9'", "name it: --store FOLDER"),
    "a law of two numbers": ("diagnose a.csv --staleness 4:8", "staleness = '4:8'", "write constant:4, or uniform:4"),
    "a point of a claim": ("verify ess/limit staleness=4", "claim = 'staleness=4'", "write --at staleness=4"),
    "a count in powers": ("run --updates 1e3", "--updates = '1e3'", "write --updates 1000"),
    "a trainer's own name": ("run --set actor.actor.clip_ratio=0.2", "'actor'", "write --method grpo --set method.low"),
    "a rate in a trainer's name": ("run --set actor.optim.lr=1", "'actor'", "write --set lr=1"),
    "a clip without one": ("run --set method.epsilon=0.2", "'epsilon'", "write --method grpo --set method.low=0.2"),
    "seeds as a grid": ("sweep --grid seed=0,1", "'seed'", "every replicate has its own seed"),
    "one arm twice": ("compare method=grpo method=grpo --smallest 0.1", "'method=grpo'", "change one of them"),
    "calls": (f"{TWO} schedule=fixed(0) --smallest 0.1", "fixed(0)", 'write "schedule=fixed schedule.staleness=0"'),
    "few replicates": (f"{TWO} --smallest 0.1 --max-replicates 8", "= 8", "sweep --grid KEY=A,B --replicates 8"),
    "a grid of rates": (f"{TWO} --smallest 0.1 --tune lr=0.1,1", "lr=0.1,1", "a name, as lr; it names the knob"),
    "percent": (f"{TWO} --smallest 5%", "--smallest = '5%'", "write --smallest 0.05, or a number in its own unit"),
    "a reward of nowhere": (
        "run --task text --set task.data=rows.jsonl --set task.prompt=q --set task.reward=exact_match",
        "reward = 'exact_match'",
        "write --set task.reward='exact', or 'my.py:function'",
    ),
    "an advantage as a loss": ("conformance own.py:gae", "loss = ", "its arguments fit --kind advantage (in Python"),
    "a loss of no trainer": (
        "conformance own.py:ppo --adapter verl",
        "loss = 'arguments log_prob, old_log_prob, advantages, mask'",
        "must be those of fn(old_log_prob, log_prob, advantages, response_mask, ...); it lacks response_mask",
    ),
    "a name behind a flag": ("conformance own.py:ess --metric ess", "arguments = 'ess'", "write --metric --like ess"),
    "a word behind a flag": ("run --verbose yes no", "arguments = 'no'", "see `asyncsim run --help`"),
    "an ESS by its author": ("conformance own.py:ess --metric --like kish", "like = 'kish'", "did you mean ess?"),
    "no metric": (
        "conformance own.py:ess --metric --like foo",
        "like = 'foo': must be one of 153 names, ess, ess_maximum, ess_perplexity",
        "a plain name is of sequence ratios",
    ),
    "a loss to export": ("export own.py:ppo --for trl", "= 'ppo'", "call it in the trainer's hook; check it by"),
    "8x": (f"{TWO} --smallest 1 --trainer-slots 8x", "--trainer-slots = '8x'", "--trainer-slots 8: Cost"),
    "a number in words": ("run --updates many", "--updates = 'many'", "write --updates NUMBER: Optimizer updates"),
    "a loss as metric": (f"{TWO} --smallest 1 --metric pg_loss", "= 'pg_loss'", "losses are not recorded"),
    "seconds that are returns": (
        f"{TWO} --smallest 60 --over seconds --system areal --set system.max_head_offpolicyness=1 "
        "--set system.consumer_batch_size=4 --set system.length=4 --set system.load=1",
        "smallest = 60.0: must be at most 1, all of trained_return",
        "in seconds only with a target",
    ),
    "a file to export": ("export own.py --for trl", "method = 'own.py'", "check it by asyncsim conformance"),
    "a KL penalty to export": ("export grpo --for verl --set kl=0.1", "'grpo': must be without a KL", "leave kl out"),
    "a setting as a method": ("export --set low=0.8 high=1.2 --for trl", "method = 'high=1.2'", "write --set high=1.2"),
    "two values of a setting": ("export grpo --for trl --set low=1 3", "arguments = '3'", "one value: --set low=1"),
    "no file of a checkpoint": ("run --checkpoint-every 30", "--checkpoint-every = '30'", "add --checkpoint FILE"),
    "a system of nowhere": (
        "forecast cal.yaml",
        "system = 'cal.yaml': must be an existing file",
        "make one: asyncsim calibrate LOG --preset NAME --out cal.yaml",
    ),
    "a claim as a kind": ("list ess/clamp-floor", "kind = 'ess/clamp-floor'", "asyncsim list claims ess/clamp-floor"),
    "a paper or an adapter as a kind": ("list roll", "kind = 'roll'", "write asyncsim list"),
    "a store before a name": ("results show st 5ffcee", "arguments = '5ffcee'", "write 5ffcee --store st"),
    "a folder as a sweep": ("results show st", "name = 'st'", "write --store st"),
    "a tab in a file": ("run tab.yaml", "(line 2, 'softmax_bandit: {}': ", "line 2: indent it by spaces, not by a tab"),
    "an open brace": ("advise brace.yaml", "(line 1, 'trainer: {areal': ", "line 1: close each brace"),
    "an indented line": ("advise indented.yaml", "(line 2, 'slots: 4': ", "line 2: indent it as its neighbors"),
    "a line without a colon": ("run colon.yaml", "(line 2, 'method grpo': ", "line 2: write it as NAME: VALUE"),
    "cards of a system": ("timeline areal --gpus 8", "option = '--gpus'", "write --model servers=8"),
    "tokens per second": (f"{AREAL} --model tokens_per_second=9 --set length=4", "= 'tokens_per_second'", "mean rate?"),
    "a loss as an option": ("conformance --loss own.py", "option = '--loss'", "asyncsim conformance own.py"),
    "an unknown parameter": ("verify ess/limit --at cap=3", "parameter = 'cap'", "current_logits: logits of the"),
    "a loss of the wrong sign": ("run --method own.py:ascent", "loss = 'ascent'", "put a minus in front of what it"),
    "a rate of the usual optimizer": ("run --task gym --set sgd.lr=1", "part = 'sgd'", "write --set adam.lr=VALUE, or"),
    "a time limit": ("run --task gym --set task.max_episode_steps=9", "'max_episode_steps'", "did you mean steps?"),
    "a time limit in settings": (
        "run --task gym --set 'task.settings={\"max_episode_steps\": 9}'",
        "settings = ",
        "write --set task.steps=NUMBER beside settings",
    ),
    "three logs": ("diagnose a.csv b.csv c.csv", "= 'b.csv c.csv'", "run the command for each file"),
    "a setting of a diagnosis": ("diagnose a.csv --set clip=0.2", "'--set'", "reads the log alone"),
    "hours of a forecast": ("forecast a.yaml --hours", "'--hours'", "times are in seconds"),
    "two logs": ("diagnose a.csv b.csv", "arguments = 'b.csv'", "compared by asyncsim judge a.csv b.csv"),
    "a smoothed curve": ("judge a.csv a.csv --smoothing 0.9", "option = '--smoothing'", "write --last 0.2"),
    "a window of a curve": ("judge a.csv a.csv --window 9", "option = '--window'", "of its last share: write --last 0"),
    "a table of runs": ("judge runs.csv runs.csv", "columns = 'Name, State'", "export the history of each run"),
    "a table of runs to diagnose": ("diagnose runs.csv", "columns = 'Name, State'", "export the history of each run"),
    "runs of the API": ("judge api.csv a.csv", "columns = 'config, name, summary'", "export the history of each"),
    "percents": ("judge a.csv percent.csv", "column reward of percent.csv = '40", "divide the percents by 100"),
    "fleets": (f"{AREAL} --set length=3 --set generators=64", "argument = 'generators'", "write --model servers=64"),
    "replicas": ("timeline verl-fully-async --set generators=64", "'generators'", "write --set replicas=64"),
    "a method as a file": ("run grpo", "file = 'grpo'", "write --method grpo"),
    "limits by position": ("timeline areal 4 8", "arguments = '4 8'", "write --set NAME=VALUE for each"),
    "an environment of one's own": ("run --env a:B", "option = '--env'", "write --task gym --set task.id=a:B"),
    "a run offline": ("run --offline", "option = '--offline'", "set the environment variable WANDB_MODE=offline"),
    "a table of a run": ("run --csv x.csv", "option = '--csv'", "write --json x.json for numbers as text"),
    "another command's option": ("run --smallest 3", "option = '--smallest'", "compare takes --smallest"),
    "all claims": ("verify --all", "option = '--all'", "leave it out: asyncsim verify tests all claims"),
    "the method that a loss is": ("conformance own.py:ppo --method grpo", "option = '--method'", "mean --like?"),
    "a baseline": ("judge --baseline a.csv --new b.csv", "option = '--baseline'", "give its log first"),
    "a metric as a command": ("ess --staleness 16", "no command ess; ", "write asyncsim run --diagnostics ess, which"),
    "replicates of arms": (f"{TWO} --set replicates=16 --smallest 1", "'replicates=16'", "--max-replicates says where"),
    "seeds of arms": (f"{TWO} --seeds 16 --smallest 1", "option = '--seeds'", "end at --max-replicates"),
    "a loss as a claim": ("verify own.py:ppo", "claim = 'own.py:ppo'", "a loss: asyncsim conformance own.py:ppo"),
    "a staleness of claims": ("verify ess --staleness 16", "option = '--staleness'", "write --at staleness=16"),
    "a method of no name": ("list losses gpro", "'gpro'", "did you mean grpo?"),
    "another kind": ("list lossess", "kind = 'lossess'", "choose what to list"),
    "a knob as an option": (
        "run --system areal --max-head-offpolicyness 8",
        "option = '--max-head-offpolicyness'",
        "write --set system.max_head_offpolicyness=8",
    ),
    "a controller": ("conformance own.py:Mine --max_staleness 2", "'--max_staleness'", "--set max_staleness="),
    "what is drawn": ("run --plot-metric return", "option = '--plot-metric'", "write --diagnostics NAME"),
    "a module's loss": ("run --method own.ppo", "method = 'own.ppo'", "write own:ppo for one of your own"),
    "a method by its place": ("run --method methods.grpo", "method = 'methods.grpo'", "write grpo"),
    "a silent run": ("run --quiet", "option = '--quiet'", "write 2>/dev/null"),
    "a limit of a forecast": ("forecast x.yaml --limit 4", "option = '--limit'", "write --set staleness_limit=4"),
    "a method among fields": ("forecast x.yaml --set method=gspo", "--set = 'method'", "write --method gspo"),
    "a trainer's configuration": (
        "advise verl.yaml",
        "'rollout, async_training'",
        "asyncsim advise verl --set samples_per_prompt=8 --set prompts_per_batch=32 --set staleness_limit=0.5, and add",
    ),
    "sections of a trainer's options": (
        "advise verl --set trainer.n_gpus=8 --set data.max_response_length=9 --set actor.optim.lr=1 --set zzz=2",
        "field of the system = 'trainer.n_gpus': must be a field; one trainer is assumed",
        "set response_lengths=lognormal:5000:0.9:16384 with your numbers, or measured lengths as "
        "--set response_lengths=FILE.csv:COLUMN\n  also actor.optim.lr: leave it out: nothing is trained here, and "
        "asyncsim run trains\n  also zzz: no such field; `asyncsim list fields`",
    ),
    "sections of a preset's options": (
        "timeline verl_fully_async --set actor_rollout_ref.rollout.n=8",
        "argument = 'actor_rollout_ref.rollout.n'",
        "write --samples=8",
    ),
    "a kind with a name": ("list systems/areal", "kind = 'systems/areal'", "write asyncsim list systems areal"),
    "several machines of a timeline": (
        "timeline slow.json --set staleness_limit=1 --set machines=3,4",
        "machines = [3, 4]",
        "write --set machines=3; asyncsim advise slow.json compares several",
    ),
    "a log of steps as one of samples": ("log clock.csv", "path = 'clock.csv'", "use `asyncsim diagnose clock.csv`"),
    "GPUs of a system": ("advise verl --gpus 16", "option = '--gpus'", "write --set machines=16"),
    "a method of a diagnosis": ("diagnose a.csv --method grpo", "option = '--method'", "leave it out"),
    "one run against another": ("judge a.csv --vs b.csv", "option = '--vs'", "write --a 'A*.csv' --b 'B*.csv'"),
    "seconds as a metric": (f"{TWO} --metric seconds --smallest 1", "'seconds'", "write --over seconds"),
    "a staleness of a system": (
        f"{TWO} --set staleness=16 --set system=areal --smallest 1",
        "= 'given together'",
        "--set system.max_head_offpolicyness=16",
    ),
    "no pace of a system": (
        "run --system tinker-cookbook --set system.groups_per_batch=4 --set system.max_steps_off_policy=1 "
        "--set system.length=3",
        "load, train_time = ",
        "give one: --set system.load=1.5",
    ),
    "a clock as seconds of a step": (
        "judge --a clock.csv --b clock.csv --metric reward --columns seconds_step=s",
        "column s of clock.csv",
        "--columns clock=s",
    ),
    "means of steps as lengths": (
        "advise slow.json --set response_lengths=c.csv:critic/score/mean",
        "'critic/score/mean'",
        "give a row a response, or use asyncsim calibrate",
    ),
    "seeds in one file": ("judge seeds.csv a.csv --metric reward", "step, row 4", "for each value of column seed"),
    "a formula": ("verify 's * lr^2 / N'", "claim = 's * lr^2 / N'", "the `predict` of a class of your own"),
    "seeds of a group": ("judge a.csv b.csv --group seed", "option = '--group'", "write a file for each seed"),
    "a change of a number": ("forecast a.yaml --set machines=+4", "'machines=+4'", "or the sum for so many more"),
    "machines of replicas": ("timeline verl_fully_async --set machines=8", "= 'machines'", "write --set replicas=8"),
    "two runs of a chart": ("judge a.csv --run p,q", "b = None", "two runs of one file: --run p --run q"),
    "a percentage of seconds": ("advise s.yaml --within 5", "--within = 5.0", "write 0.05 for 5 percent"),
    "axis that falls": ("judge clock.csv a.csv --over reward", "reward, row 4 of clock.csv", "that never falls: steps"),
    "a clip of verl's loss": (
        "conformance own.py:set --adapter verl --set adapter.clip_ratio=0.2",
        "verl = 'clip_ratio'",
        "--set 'adapter.config={\"clip_ratio\": VALUE}' if the loss reads config.clip_ratio",
    ),
    "an argument of one's own loss": ("conformance own.py:ppo --set eps=0.1", "= 'eps'", "or an argument of your loss"),
    "two fields": ("advise slow.json --set n_slots=8 --set workers=3", "= 'n_slots'", "also workers: did you mean"),
    "two options": ("advise x.yaml --generators 24 --slots 8", "rators'", "machines=24 --set slots_per_machine=8"),
    "options at once": ("judge --spread 0.03 --effect 0.02", "= '--spread'", "also --effect: write --within 0.02"),
    "a power": ("judge --power 0.02 --seed-spread 0.03", "= 0.02", "judge --within 0.02 --seed-spread 0.03"),
    "a rule": ("timeline queue", "system = 'queue'", "openrlhf: a queue of complete batches"),
    "an option to list": ("list staleness_threshold", "kind = ", "write asyncsim list systems verl_fully_async"),
    "a column to list": ("list rollout_corr/kl", "kind = ", "read as kl_k1 (tokens, nats)"),
    "a sweep of eta": ("timeline areal --sweep eta=1,2", "= 'eta'", "write --sweep max_head_offpolicyness=1,2"),
    "a pattern": ("judge a b.csv", "path = 'a'", "write 'a*.csv' for 2 files"),
    "columns the other way": ("diagnose a.csv --columns mine=reward", "= 'mine'", "OURS first: --columns reward=mine"),
    "a system by its log": ("calibrate a.csv s.yaml --preset verl", "logs = ['s.yaml']", "give its fields as --set"),
    "a system beside a preset": ("timeline areal s.yaml", "= 's.yaml'", "write asyncsim timeline s.yaml, a"),
    "a log of no trainer": ("calibrate a.csv", "preset = None: must be one of verl, areal", "the trainer that wrote"),
    "a former setting": (f"{AREAL} --set length=3 --model age_checks=all", "= 'age_checks'", "mean age_at_publish?"),
}
# In Python: the call, the field and value, the remedy.
KNOBBED = SPEC.replace(system=sim.systems.areal(4, 8, length=3, load=1))
WRITTEN = {
    "loss of runs": (lambda: TRACE["loss"], "metric = 'loss'", "; a loss is not recorded; the obj.* trained_return"),
    "a metric of no run": (lambda: TRACE["token_ess"], "token_ess", r"did you mean ess_token\? record it with Spec"),
    "a reward of a trace": (lambda: TRACE["reward"], "metric = 'reward'", r"; did you mean trained_return\?$"),
    "knob of a system": (lambda: KNOBBED.system.replace(max_head_offpolicy=1), "", r"areal\(..., max_head_offpolicyn"),
    "a knob of a spec's system": (lambda: KNOBBED.replace(max_head_offpolicyness=1), "", r"system=sim.systems.areal\("),
    "knob of a method": (lambda: sim.methods.grpo().replace(high=0.3), "", r"method = sim.methods.grpo\(..., high=0.3"),
    "sd as sigma": (lambda: as_law("s", "lognormal:120:10"), "sigma = 10", r"sigma 0.0832 \(lognormal:120:0.0832"),
    "wide sigma": (lambda: sim.lognormal(1.0, 1e9), r"sigma = 1.*\[0, 5\]", "standard deviation of log X$"),
    "a rule as metric": (lambda: SPEC.replace(diagnostics=[_plain]), "not a plain function", r"put @metric\(outputs="),
    "metric as object": (lambda: sim.sweep(SPEC, {"staleness": [0]}, metric=_plain), "a name", "sim.compare takes it"),
    "when it is reached": (lambda: TRACE.seconds(0.8), "trace.seconds", "each recorded update"),
    "a metric alone": (lambda: SPEC.replace(diagnostics=sim.diagnostics.ess()), "diagnostics", r"diagnostics=\[...\]"),
    "a list to a boundary": (lambda: sim.boundary(SPEC, staleness=[1, 4]), "'staleness'", "low=1, high=64"),
    "lower values": (lambda: sim.judge_runs("a", "b", lower=True), "argument = 'lower'", r"did you mean better\?"),
    "another library's KL": (lambda: SPEC.replace(diagnostics=["approx_kl"]), "'approx_kl'", r"did you mean kl\?"),
    "a long window": (lambda: sim.predict(TRACE, window=50), "window = 50", "no more than a run has"),
    "a clip beside its method": (
        lambda: sim.export_loss("grpo", "verl", clip_ratio_low=0.2),
        "'clip_ratio_low'",
        r"sim.methods.grpo\(low=0.2, high=0.28\), 'verl'",
    ),
    "an open file": (
        lambda: sim.advise(Path(__file__).open()),  # noqa: SIM115
        "system = ",
        "give the path, '.*test_mistakes.py', not the open file",
    ),
    "no smallest effect": (lambda: sim.compare(SPEC, SPEC), "compare argument = 'smallest'", r"smallest=0.01"),
    "another preset's word": (
        lambda: sim.systems.areal(max_staleness=4),
        "areal argument = 'max_staleness'",
        "did you mean max_head_offpolicyness?",
    ),
    "a preset without its word": (
        lambda: sim.systems.areal(4),
        "'consumer_batch_size, length'",
        r"write areal\(consumer_batch_size=8, length=sim.lognormal\(1.0, 0.8\), load=1.5\)",
    ),
    "a list as length": (lambda: sim.systems.areal(4, 8, length=[3, 5], load=1), "length", r"sim.empirical\(numbers\)"),
    "a word for penalties": (lambda: SPEC.method.replace(penalty=()), "Method argument = 'penalty'", "mean penalties?"),
    "another's word for clip": (lambda: sim.methods.grpo(clip=0.2), "grpo argument = 'clip'", "did you mean low?"),
    "a rate of a spec": (lambda: SPEC.replace(lr=0.1), "Spec argument = 'lr'", "write update=sim.chain"),
    "seeds of a run": (lambda: sim.run(SPEC, sede=1), "run argument = 'sede'", "did you mean seed?"),
    "a seed of a spec": (lambda: SPEC.replace(seed=1), "Spec argument = 'seed'", r"sim\.run\(spec, seed=1\)"),
    "a staleness of a spec": (lambda: SPEC.replace(staleness=4), "Spec argument", r"system=sim\.schedules\.fixed"),
    "one spec": (lambda: sim.power(SPEC, effect=0.1), "arms = 1", r"write \(a, b, \.\.\.\)"),
    "a check's argument": (
        lambda: sim.conformance.check_admission(dict, batchsize=8),
        "= 'batchsize'",
        r"did you mean batch_size\?",
    ),
    "an environment itself": (lambda: sim.tasks.gym(SPEC), "id", "or of your own class 'FILE.py:CLASS'"),
    "an environment that gymnasium made": (lambda: sim.tasks.gym(gymnasium.make("CartPole-v1")), "id", "CartPole-v1'"),
    "rows as data": (lambda: sim.tasks.text([{"prompt": "a"}]), "data", "rows.jsonl"),
    "several stalenesses": (lambda: sim.schedules.fixed([0, 4]), "staleness", "sim.sweep"),
    "one lead": (lambda: sim.predict({"x": [1.0]}, "x", lead=5), "lead", r"=\[5\]$"),
    "a signal by another name": (lambda: sim.predict({}, metric="ess"), "predict", "write sim.predict.trace"),
    "an effect by another name": (lambda: sim.power(SPEC, SPEC, smallest=0.1), "power", "write effect=0.02"),
    "names in one text": (lambda: SPEC.replace(diagnostics="ess,kl"), "diagnostics", "'ess', 'kl'"),
    "a mean": (lambda: sim.methods.grpo(advantage=lambda rewards: rewards.mean()), "advantage", "where rewards have"),
    "parameters of a claim": (lambda: sim.claims.Claim(limit=4), "point = 'limit=4'", r"write Claim\({'limit': 4}\)"),
    "ends of a claim's parameter": (lambda: sim.claims.Integer(5, 1), "high = 1", "swap the ends"),
    "ends of a real one": (lambda: sim.claims.Real(5.0, 1.0), "high = 1.0", "swap the ends"),
    "updates of a run": (lambda: sim.run(SPEC, steps=9), "'steps'", r"write Spec\(updates=9\)"),
    "no system": (
        lambda: sim.Spec(BANDIT, method=SPEC.method, update=SPEC.update),
        "'system'",
        r"Spec\(system=sim\.schedules.fixed\(4\)\)",
    ),
    "staleness of a run": (lambda: sim.run(SPEC, staleness=16), "'staleness'", r"spec\.replace\(system=sim\.schedules"),
    "a clip of truncation": (lambda: sim.methods.truncated_is(clip=5.0), "'clip'", "write cap=5.0"),
    "a rate of the update": (lambda: sim.sweep(SPEC, {"update.lr": [1.0]}), "'update.lr'", "write sgd.lr"),
    "metrics as an axis": (lambda: sim.plot(TRACE, None, ["ess"]), "over = ", r"those of Spec\(diagnostics="),
    "a metric by half": (lambda: TRACE.final("return"), "metric = 'return'", "did you mean trained_return"),
    "a method of a run": (lambda: sim.run(method="gspo"), "'method'", r"write sim.run\(spec.replace\(method="),
    "arms by name": (lambda: sim.compare(a=SPEC, b=SPEC, smallest=0.1), "'a'", r"sim.compare\({'A': spec, 'B': other}"),
    "a metric that is called": (lambda: sim.diagnostics.ess(staleness=4), "'staleness'", r"sim.run\(spec\)\['ess'\]"),
    "several metrics": (
        lambda: sim.conformance.check_metric(lambda log_prob, behavior_log_prob, mask: 0.0, "kl"),
        "like = 'kl'",
        "take kl_k1, kl_k2, kl_k3, ...; a plain name is of sequence ratios",
    ),
    "a controller with arguments": (
        lambda: sim.conformance.check_admission(lambda limit: None, batch_size=8, max_staleness=4),
        "it needs limit",
        "give lambda: ",
    ),
    "a limit of advise": (lambda: sim.advise({}, limits=[1]), "'limits'", "did you mean staleness_limit"),
    "a file as a task": (lambda: sim.evaluate(None, "test.jsonl"), "task = 'test.jsonl'", r"sim.tasks.NAME\(...\)"),
    "settings of a forecast": (lambda: sim.forecast({}, {"machines": 4}), "method", "as staleness_limit=4"),
    "a log as a system": (lambda: sim.forecast("run.csv"), "system = 'run.csv'", "asyncsim calibrate run.csv --preset"),
    "seeds of one run": (lambda: sim.run(SPEC, seed=[0, 1]), "seed", r"Spec\(replicates=3\)"),
    "seeds by another name": (lambda: sim.run(SPEC, seeds=[0, 1]), "'seeds'", r"spec.replace\(replicates=2\)"),
    "a clip of two sides": (lambda: sim.methods.grpo(clip_range=0.1), "'clip_range'", "did you mean low and high"),
    "arms by a keyword": (lambda: sim.compare(arms=[SPEC], smallest=1.0), "compare argument = 'arms'", "without arms="),
    "links in a list": (lambda: sim.chain([sim.updates.sgd(0.1)]), "links", r"write chain\(a, b\)"),
    "another library's law": (lambda: sim.systems.areal(4, 8, length=SPEC, load=1), "length", "sim.lognormal"),
    "a part twice": (lambda: sim.Spec(BANDIT, task=BANDIT), "Spec argument", "write Spec"),
    "a word twice": (lambda: sim.updates.sgd(0.1, lr=0.2), "sgd argument = 'lr': must be given once", "leave it out"),
    "a setting to bound": (lambda: sim.boundary(SPEC, "stale", low=0, high=9), "knob = 'stale'", "mean staleness?"),
    "staleness that a run never reaches": (
        lambda: sim.boundary(SPEC.replace(updates=9), "staleness", low=0, high=9),
        "high = 9",
        "must be below the 9 batches that a run trains on; give high=8, or more updates",
    ),
    "sizes the wrong way round": (
        lambda: sim.policies.module(lambda: torch.nn.Linear(4, 2), 2, 4),
        "module",
        "or correct observation= and actions=",
    ),
    "a module of several": (
        lambda: sim.policies.module(
            lambda: type("Two", (torch.nn.Linear,), {"forward": lambda self, x: (x, x)})(4, 2), 4, 2
        ),
        "logits of the module = 'a tuple'",
        "logits alone",
    ),
    "sizes of another environment": (
        lambda: sim.tasks.gym().check(sim.policies.mlp(2, 4)),
        "policy observation = 2",
        "write observation=4 in the policy",
    ),
    "an interval of a share": (lambda: TRACE.interval("ess", 0.95), "estimate = 0.95", r"trace.final\('ess'\)"),
    "an estimate of a name": (lambda: TRACE.estimate("ess"), "values = 'ess'", r"write trace.final\('ess'\)"),
    "estimate over": (lambda: TRACE.estimate(over="ess"), "trace.estimate argument = 'over'", r"write trace.final\("),
    "a sample of a law": (lambda: sim.exponential(1.0).sample(9), "law.sample", r"write law.sample\(Stream\(0"),
    "the deviation of a law": (lambda: sim.lognormal(9, std=3), "'std'", "of log X"),
    "a scale of a law": (lambda: sim.gamma(shape=2, scale=3), "'scale'", r"mean=shape \* scale"),
    "too much to export": (lambda: sim.export_loss("grpo", "verl", "x"), "export_loss", "and name= for another name"),
    "nothing to export": (lambda: sim.export_link(), "'link': must be given", r"sim.updates.align\(\)"),
    "a metric of no record": (lambda: RECORDED["esss"], "metric = 'esss'", "did you mean ess.* as recorded.update"),
    "logs as estimates": (lambda: sim.judge("a.csv", "b.csv"), "estimate = 'a.csv'", r"sim.judge_runs\(a, b\)"),
    "a function as a method": (lambda: SPEC.replace(method=len), "method", r"sim.methods.from_loss\(FUNCTION\)"),
    "a number as a rate": (lambda: SPEC.replace(update=0.1), "update = 0.1", r"sim.chain\(sim.updates.adam\("),
    "a network as a policy": (
        lambda: SPEC.replace(policy=torch.nn.Linear(4, 2)),
        "policy",
        r"sim.policies.module\(network, D, A\)",
    ),
    "a column as a unit": (lambda: sim.schedules.delays("a.csv", "ms"), "unit = 'ms'", "a column is FILE.csv:COLUMN"),
    "a table as a model": (lambda: TRACE.export("model"), "policy", "a table's weights: trace.parameters"),
    "a tensor as length": (lambda: sim.systems.areal(4, 8, length=torch.ones(3), load=1), "length", r"sim.empirical\("),
    "file of lengths": (lambda: sim.empirical("lengths.csv"), "values = 'lengths.csv'", "length='@lengths.csv:column'"),
    "group's size": (lambda: sim.methods.grpo(num_generations=8), "'num_gen", r"write Spec\(samples_per_group=8\)"),
    "epochs of a method": (lambda: sim.methods.grpo(num_iterations=2), "'num_iter", r"write Spec\(epochs=2\)"),
    "a rate of a method": (lambda: sim.methods.grpo(lr=0.1), "'lr'", r"update=sim.chain\(sim.updates.adam\("),
    "a decay of weights": (lambda: sim.updates.adam(weight_decay=0.1), "'weight_decay'", "sim.updates.adamw"),
    "norm's clip": (lambda: sim.updates.adam(max_grad_norm=1), "'max_grad_norm'", r"sim.updates.clip_norm\(0.5\)"),
    "a discount of a method": (lambda: sim.methods.grpo(gamma=1.0), "'gamma'", r"sim.advantages.gae\(discount="),
    "an entropy of another": (lambda: sim.methods.grpo(ent_coef=0.1), "'ent_coef'", "did you mean entropy"),
    "a penalty of a spec": (lambda: SPEC.replace(beta=0.1), "'beta'", r"sim.penalties.k3\(0.1\)"),
    "temperature of a spec": (lambda: SPEC.replace(temperature=0.1), "'temperature'", r"causal_lm\(temperature=0.7\)"),
    "a device of a run": (lambda: sim.run(SPEC, device="cuda"), "'device'", r"write Spec\(device='cuda'\)"),
    "a file as a run": (lambda: sim.run("spec.yaml"), "spec = 'spec.yaml'", r"sim.Spec.load\('spec.yaml'\)"),
    "a logger by its name": (lambda: sim.run(SPEC, callback="wandb"), "callback = 'wandb'", "sim.callbacks.NAME"),
    "a label of a plot": (lambda: sim.plot(TRACE, label="x"), "'label'", r"sim.plot\({'NAME': trace"),
    "labels of arms": (lambda: sim.compare(SPEC, SPEC, smallest=1.0, labels=["x"]), "'labels'", r"sim.compare\({'A'"),
    "a plot": (lambda: sim.plot(TRACE, metric="ess"), "'metric'", r"write Spec\(diagnostics=\['trained_return'\]\)"),
    "an array as a plot": (lambda: sim.plot(np.ones(3)), "value = 'ndarray'", r"sim.points\(x, y\)"),
    "a knob of a sweep": (lambda: sim.sweep(SPEC, staleness=[0, 4]), "'staleness'", r"write sim.sweep\(spec, {"),
    "a trace alone": (lambda: sim.evaluate(TRACE), "'task': must be given", r"write sim.evaluate\(trace, spec.task\)"),
    "rows as columns": (lambda: sim.diagnose([{"step": 1, "ess": 0.9}]), "telemetry", r"columns by name, {'step': \[0"),
    "a timeline of no length": (
        lambda: sim.systems.areal(4, 8, length=3, load=1).timeline(),
        "system.timeline",
        r"write system.timeline\(batches=100\)",
    ),
    "part uncalled": (lambda: SPEC.replace(method=sim.methods.grpo), "method", r"call it, sim.methods.grpo\(...\)"),
    "a method that is not called": (
        lambda: sim.conformance.check_loss(len, like=sim.methods.gspo),
        "like",
        r"call it, sim.methods.gspo\(...\)",
    ),
    "settings of what a loss is to be": (
        lambda: sim.conformance.check_loss(len, like="ppo_clip", clip=0.2),
        "check_loss argument = 'clip'",
        r"like=sim.methods.ppo_clip\(high=0.2\)",
    ),
    "a metric by its author": (lambda: sim.conformance.check_metric(len, like="kish"), "like", "mean ess?"),
    "a stop of a run": (lambda: sim.run(SPEC, stop=len), "run argument = 'stop'", "write callback=f"),
    "a point": (lambda: sim.verify("ess/limit", staleness=4), "verify argument = 'staleness'", r"at={'staleness': 4}"),
    "a claim as a log": (lambda: sim.predict("ess/limit"), "path = 'ess/limit'", r"sim.claims.claim\(id\).predict"),
    "two tables": (
        lambda: sim.judge(pandas.DataFrame({"reward": [1.0]}), pandas.DataFrame({"reward": [2.0]})),
        "estimate",
        r"sim.judge_runs\(a, b\)",
    ),
    "a grid of arms": (
        lambda: sim.compare(SPEC, SPEC, smallest=1.0, staleness=[1, 4]),
        "compare argument = 'staleness'",
        r"write along={'staleness': \[1, 4\]}",
    ),
    "a rate of a preset": (lambda: sim.systems.verl_fully_async(rate=3), "= 'rate'", r"write model={'rate': 30}"),
    "generators of a preset": (lambda: sim.systems.verl_fully_async(generators=64), "'generators'", r"mean replicas\?"),
    "generators of a model": (lambda: sim.systems.areal(generators=64), "'generators'", r"write model={'servers': 4}"),
    "a network of probabilities": (
        lambda: sim.policies.module(lambda: torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Softmax(-1)), 4, 2),
        "logits of the module",
        "leave out the last softmax",
    ),
    "a network of batches": (
        lambda: sim.policies.module(lambda: torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)), 4, 2),
        "module = 'BatchNorm1d'",
        "take nn.LayerNorm for BatchNorm",
    ),
    "a network with dropout": (
        lambda: sim.policies.module(lambda: torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout(0.5)), 4, 2),
        "module = 'Dropout'",
        "leave Dropout out",
    ),
    "a loss that is maximized": (
        lambda: sim.methods.from_loss(lambda log_prob, advantages: log_prob * advantages),
        "loss",
        "put a minus in front",
    ),
    "a loss to export": (
        lambda: sim.export_loss(
            sim.methods.from_loss(lambda log_prob, advantages: -log_prob * advantages, name="mine"), "verl"
        ),
        "method",
        "call it in the trainer's hook",
    ),
    "a loss with its numbers": (
        lambda: sim.methods.from_loss(lambda log_prob, advantages: ((-log_prob * advantages).sum(), {})),
        "loss = 'a tuple'",
        "return the loss alone",
    ),
    "a loss as a number": (
        lambda: sim.methods.from_loss(lambda log_prob, advantages: (-log_prob * advantages).sum().item()),
        "loss = 'a float'",
        r"without item\(\) or numpy\(\)",
    ),
    "staleness as a system": (lambda: SPEC.replace(system=4), "system = 4", r"sim.schedules.fixed\(4\) for 4 versions"),
    "a method by its name": (lambda: SPEC.replace(method="ppo-clip"), "method", r"write sim.methods.ppo_clip\("),
    "an advantage by its name": (
        lambda: sim.methods.grpo(advantage="group_mean"),
        "advantage",
        r"write sim.advantages.group_mean\(",
    ),
    "a link by its name": (lambda: sim.chain("adam"), "link", r"write sim.updates.adam\("),
    "a link without a chain": (lambda: SPEC.replace(update=sim.updates.sgd(0.1)), "update", r"sim.chain\(link\)"),
    "an object as a link": (lambda: sim.chain(object()), "link", r"init\(parameters\).* and apply\(record, state\)"),
    "factors of a method": (lambda: sim.methods.grpo(factors=()), "grpo argument", r"METHOD.replace\(factors="),
    "a limit": (lambda: sim.systems.one_step_off(limit=4), "= 'limit'", "staleness is 1 version by construction"),
    "a paper": (lambda: sim.verify("2510.01161"), "claim = '2510.01161'", r"sim.verify\(\['ratio/unseen-support', "),
    "a call of claims": (lambda: sim.claims("ess"), "claim = 'ess'", "of this family: ess/clamp-floor"),
    "a percentage": (lambda: sim.compare(SPEC, SPEC, smallest="5%"), "smallest = '5%'", "as 0.05"),
    "no speed": (lambda: sim.systems.areal(4, 8, length=3), "load, train_time", "load=1.5, or train_time=SECONDS"),
    "traces as logs": (lambda: sim.judge_runs(TRACE, TRACE), "a = Trace", r"write sim.compare\(spec, other"),
    "several specs": (lambda: sim.run([SPEC, SPEC]), "spec", r"\[sim.run\(each\) for each in specs\]"),
    "a project by place": (lambda: sim.callbacks.wandb("mine"), "wandb arguments = 'mine'", r"wandb\(project='NAME'\)"),
    "runs to judge": (lambda: sim.judge(1, 2, metric="reward"), "'metric'", r"sim.judge_runs\(a, b, metric="),
    "another word for error": (lambda: sim.judge_runs(1, 2, alpha=0.05), "'alpha'", "write error=0.05"),
    "a log to forecast": (lambda: sim.forecast(TABLE, "verl"), "'DataFrame'", r"sim.calibrate\(log, 'verl'\)"),
    "samples to calibrate": (lambda: sim.calibrate(SAMPLES, "verl"), "'a DataFrame'", r"df.to_json\('samples.jsonl'"),
    "a span of limits": (
        lambda: sim.advise(SYSTEM | {"response_lengths": 9, "staleness_limit": "0-4"}),
        "staleness_limit = '0-4'",
        r"each value, as staleness_limit=0,4",
    ),
    "both kinds of rollouts": (
        lambda: sim.advise(SYSTEM | {"response_lengths": 9, "partial_rollouts": "both"}),
        "partial_rollouts = 'both'",
        r"partial_rollouts=\[True,False\]",
    ),
    "a column of seconds that no run has": (
        lambda: sim.judge_runs(RISING, RISING, columns="seconds_step=nothing"),
        r"columns\[seconds_step\] = 'nothing'",
        "did you mean|correct the name",
    ),
    "runs in one table": (
        lambda: sim.judge_runs(pandas.concat([TABLE] * 2), TABLE, metric="reward"),
        "column step",
        "of several runs make a file each",
    ),
    "a rate below the log's": (
        lambda: sim.calibrate(TABLE, "verl", **SLOW),
        "tokens_per_second = 4",
        "12.5 or more: the log has 100 tokens per second",
    ),
    "a system by keywords": (lambda: sim.advise(trainer="areal"), "'trainer'", r"sim.advise\({'trainer': 'areal'"),
    "a column of a table": (
        lambda: TRACE.table("ess"),
        "trace.table arguments = 'ess'",
        r"write trace\['ess'\] for the values of one metric",
    ),
    "steps in all": (lambda: SPEC.replace(total_timesteps=9), "'total_timesteps'", "an update trains one batch"),
    "an advantage of a spec": (lambda: SPEC.replace(advantage="gae"), "'advantage'", "write method="),
    "schedule of adam": (lambda: sim.updates.adam(0.1, schedule="cosine"), "'schedule'", r"sim.updates.lr_schedule\("),
    "a form by position": (lambda: sim.updates.lr_schedule("linear", warmup=9), "'warmup'", "place, 'linear': one of"),
    "a form as warm-up": (lambda: sim.updates.lr_schedule("linear"), "warmup", "the form is decay='linear'"),
    "a table as text": (lambda: TRACE.save("t.csv"), "path = 't.csv'", "ending in .npz"),
    "episodes": (lambda: sim.evaluate(TRACE, BANDIT, n_eval_episodes=9), "'n_eval_episodes'", r"mean samples\?"),
    "no policy": (lambda: TRACE.policy(0), "policy = 0: must be a policy", r"trace.module\(0\)"),
    "settings of gym": (lambda: sim.tasks.gym("CartPole-v1", n=9), "'n'", r"write settings={'NAME': value}"),
    "tokens": (lambda: sim.tasks.text("x.jsonl", max_new_tokens=8), "'max_new_tokens'", r"mean horizon\?"),
    "a tracker": (lambda: sim.run(SPEC, report_to="wandb"), "'report_to'", "write callback=sim.callbacks.wandb"),
    "a store": (lambda: sim.sweep(SPEC, {"staleness": [0]}, save="s"), "'save'", "write store='FOLDER'"),
    "a rate of a grid": (lambda: sim.sweep(SPEC, {"learning_rate": [1]}), "'learning_rate'", r"mean lr\?"),
    "too many": (lambda: sim.updates.sgd(0.1, 0.2), r"sgd arguments = 0.2: must be named", "it takes lr"),
}


RUN, SWEEP, COMPARE = "run", SWEPT, "compare grpo gspo --smallest 0.1"
# Options of pytest, verl, TRL, SB3, W&B and rliable: what a command says to each.
OTHERS = {
    (SWEEP, "save"): "write --store 0 or --csv 0.csv or --json 0.json",
    (SWEEP, "seeds n-seeds trials"): "write --replicates VALUE",
    (f"{SWEEP}; {COMPARE}", "output-dir results-dir"): "did you mean --store?",
    (f"{SWEEP}; {COMPARE}", "threshold collapse-below"): "write --over reached --target VALUE",
    (COMPARE, "alpha significance-level"): "did you mean --error?",
    (f"{COMPARE}; judge a b", "confidence ci"): "write --error 0.05",
    (COMPARE, "tolerance delta min-effect"): "did you mean --smallest?",
    (
        f"{RUN}; {SWEEP}; advise s.yaml; log l.csv",
        "alpha confidence level",
    ): "all intervals printed here are 95 percent",
    (f"{RUN}; {SWEEP}; {COMPARE}", "clip-range epsilon"): "--set method.low=0.2 --set method.high=0.2",
    (f"{RUN}; {SWEEP}; {COMPARE}", "batch-size"): "--set schedule.groups_per_batch=VALUE",
    (f"{RUN}; {SWEEP}; {COMPARE}", "max-tokens"): "--set task.horizon=VALUE",
    (f"{RUN}; {SWEEP}; {COMPARE}", "learning-rate"): "write --set sgd.lr=VALUE",
    (RUN, "num-steps total-timesteps n-iters"): "write --updates VALUE",
    (RUN, "wandb-project run-name report-to"): "--log",
    (RUN, "save-steps"): "did you mean --checkpoint-every?",
    ("timeline areal; advise s.yaml", "replicates seeds trials"): "did you mean --realizations?",
    ("verify ess", "alpha"): "p < 0.001",
}


@pytest.mark.parametrize("case", OTHERS)
def test_options_of_other_tools_are_answered_by_ours(case):
    for command in case[0].split("; "):
        for option in case[1].split():
            said = refusal(command, f"--{option}", "0.5")
            asked = re.sub(r"(?<=[= ])0.5(?=,|\n| )", "VALUE", said)
            assert OTHERS[case] in f"{said} {asked}", (command, option)


@pytest.mark.parametrize("name", TYPED)
def test_the_command_line_says_what_to_type(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(
        "import torch\n\nclass Mine:\n    pass\n\nnet = torch.nn.Sequential(torch.nn.Linear(4, 2))\n"
        "def gae(rewards, values, dones, gamma=0.99, lam=0.95):\n    return rewards\n"
        "def ess(log_prob, old_log_prob, mask):\n    return 1.0\n"
        "def ppo(log_prob, old_log_prob, advantages, mask):\n    return -(log_prob * advantages * mask).sum()\n"
        "def each(log_prob, old_log_prob, advantages, mask):\n    return -log_prob * advantages\n"
        "def plain(log_prob, old_log_prob, advantages):\n    return -log_prob * advantages\n"
        "class Slow:\n    def __init__(self, strength=0.1):\n        self.strength = strength\n"
        "    def init(self, parameters):\n        return {}\n"
        "    def apply(self, record, state):\n        return record, state\n"
        "class Cut(torch.nn.Module):\n    def forward(self, log_prob, old_log_prob, advantages, mask):\n        pass\n"
        "def arrays(log_prob, old_log_prob, advantages, mask):\n    return log_prob.numpy().sum()\n"
        "def set(old_log_prob, log_prob, advantages, response_mask, config=None):\n    return config.cap * log_prob\n"
        "def ascent(log_prob, old_log_prob, advantages, mask):\n    return (log_prob * advantages * mask).sum()\n"
    )
    (tmp_path / "st").mkdir()
    (tmp_path / "lengths.txt").write_text("length\n3\n4\n")
    (tmp_path / "slow.json").write_text(json.dumps(SYSTEM | {"response_lengths": 4}))
    for log, comma, column in (
        ("a", ",", "reward"),
        ("b", ",", "mine"),
        ("c", ",", "critic/score/mean"),
        ("d", ";", "ess"),
    ):
        rows = (
            f"{step}{comma}{0.4 + step * len(column) / 1000}".replace(".", ".,"[comma == ";"]) for step in range(50)
        )
        (tmp_path / f"{log}.csv").write_text("\n".join([f"step{comma}{column}", *rows, ""]))
    for table, head in (("runs", "Name,State,Created,Runtime,_step,reward"), ("api", ",summary,config,name,x,y")):
        (tmp_path / f"{table}.csv").write_text(
            "\n".join([head, *(f"{row},finished,x,9,{row},0.5" for row in range(4)), ""])
        )
    percents = (f"{step},{40 + step}" for step in range(50))
    (tmp_path / "percent.csv").write_text("\n".join(["step,reward", *percents, ""]))
    clock = (f"{step},{60 * step + 5},{step % 3},{60 - step % 2}" for step in range(20))
    (tmp_path / "clock.csv").write_text("\n".join(["step,s,reward,step_time", *clock, ""]))
    seeds = (f"{row // 3},{row % 3},{row}" for row in range(6))
    (tmp_path / "seeds.csv").write_text("\n".join(["seed,step,reward", *seeds, ""]))
    (tmp_path / "tab.yaml").write_text("task:\n\tsoftmax_bandit: {}\n")
    (tmp_path / "brace.yaml").write_text("trainer: {areal\nmachines: 4\n")
    (tmp_path / "indented.yaml").write_text("machines: 4\n  slots: 4\n")
    (tmp_path / "verl.yaml").write_text(
        "rollout: {n: 8, n_gpus: 24, ppo_mini_batch_size: 32}\nasync_training: {staleness_threshold: 0.5}\n"
    )
    (tmp_path / "colon.yaml").write_text("task: bandit\nmethod grpo\nupdates: 4\n")
    (tmp_path / "rows.jsonl").write_text('{"q": "1", "answer": "1"}\n')
    words, field, remedy = TYPED[name]
    said, *known = refusal(words).splitlines()
    assert said.startswith("asyncsim: ") and re.search("must be |no command ", said) and field in said, said
    assert remedy in "\n".join([said, *known]), said
    assert all(line.startswith("  ") for line in known)


SYSTEM = {
    "trainer": "areal",
    "slots_per_machine": 8,
    "tokens_per_second": 30,
    "prompts_per_batch": 4,
    "samples_per_prompt": 1,
    "train_seconds": 8,
}


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("advise csv.json", "'response_lenght': must be one of response_length; did you mean response_length?"),
        ("advise txt.json", "response_lengths column = 'tokens': must be one of numbers; leave :tokens out"),
        (f"{AREAL} --set length=@lengths.csv:tokens", "length column = 'tokens': must be one of response_length; "),
        ("advise skyrl.json", "prompts_at_once = 2: must be at least prompts_per_batch = 4 of skyrl; its workers"),
        ("log lengths.csv --delays respons", "'respons': must be one of response_length; choose a column of numbers"),
    ],
)
def test_a_column_that_a_file_lacks_is_answered_by_those_it_has(words, remedy, monkeypatch, tmp_path):
    """A file of one column was read whatever its name, and broke off."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lengths.csv").write_text("response_length\n1658\n1349\n")
    (tmp_path / "lengths.txt").write_text("1658\n1349\n")
    for kind, column in (("csv", "response_lenght"), ("txt", "tokens")):
        text = json.dumps(SYSTEM | {"response_lengths": f"lengths.{kind}:{column}"})
        (tmp_path / f"{kind}.json").write_text(text)
    few = {"response_lengths": 4, "trainer": "skyrl", "prompts_at_once": 2}
    (tmp_path / "skyrl.json").write_text(json.dumps(SYSTEM | few))
    assert remedy in refusal(words)


@pytest.mark.parametrize("comma", [";", "\t"])
def test_a_table_is_read_whatever_stands_between_its_cells(comma, tmp_path, monkeypatch):
    """As spreadsheets write it; each reader of tables, beside the same with commas."""
    monkeypatch.chdir(tmp_path)
    rows = ["step,reward,ess", *(f"{step},{0.4 + step % 7 / 100},{0.9 - step % 5 / 100}" for step in range(50)), ""]
    for name, between in (("plain", ","), ("other", comma)):
        (tmp_path / f"{name}.csv").write_text("\n".join(rows).replace(",", between))
    (tmp_path / "gaps.csv").write_text("\n".join(rows).replace("0.4,", "nan,").replace(",", comma))
    plain, other = (sim.diagnose(f"{name}.csv") for name in ("plain", "other"))
    assert plain.json() == other.json() and set(plain.columns) == {"step", "reward", "ess"}
    laws = [as_law("length", f"@{name}.csv:ess") for name in ("plain", "other")]
    assert laws[0] == laws[1]
    refused("column reward, row 1", sim.diagnose, "gaps.csv")


def test_runs_whose_columns_have_other_names_are_judged(tmp_path, monkeypatch):
    """A column that one of the runs has is that one's alone."""
    rows = {name: {"step": list(range(50)), name: [k % 7 for k in range(50)]} for name in ("reward", "mine")}
    rows["mine"]["mine"] = [value + 1.0 for value in rows["mine"]["mine"]]
    found = sim.judge_runs(rows["reward"], rows["mine"], columns="reward=mine")
    assert found.difference == pytest.approx(1.0)
    refused("metric of b", sim.judge_runs, rows["reward"], rows["mine"])
    refused(r"columns\[reward\] of b", sim.judge_runs, rows["reward"], rows["mine"], columns="reward=min")


@pytest.mark.parametrize(
    ("name", "reset", "step", "remedy"),
    [
        ("Four", "zeros, {}", "zeros, 0.0, True, {}", "return observation, reward, terminated, truncated, {}"),
        ("None", "zeros, {}", "None", "return observation, reward, terminated, truncated, {}"),
        ("Bare", "zeros", "zeros, 0.0, True, False, {}", "return observation, {}"),
        ("Unseeded", "", "zeros, 0.0, True, False, {}", "write def reset(self, *, seed=None, options=None)"),
    ],
)
def test_an_environment_of_the_former_gym_is_told_the_new_form(name, reset, step, remedy, own_environments):
    spaces, zeros = gymnasium.spaces, np.zeros(3, np.float32)

    class Former(gymnasium.Env):
        observation_space, action_space = spaces.Box(-1, 1, (3,)), spaces.Discrete(2)

        def step(self, action):
            return eval(step, {"zeros": zeros})

    seeded = lambda self, *, seed=None, options=None: eval(reset, {"zeros": zeros})  # noqa: E731
    Former.reset = seeded if reset else lambda self: (zeros, {})
    gymnasium.register(f"{name}-v0", Former, max_episode_steps=4)
    spec = SPEC.replace(task=sim.tasks.gym(f"{name}-v0"), updates=1, replicates=1)
    assert remedy in refused(f"(step|reset) of {name}-v0", sim.run, spec).remedy


@pytest.mark.parametrize("typed", SHORT)
def test_options_of_a_run_are_words_of_comparisons_and_sweeps(typed):
    command = typer.main.get_command(app)
    assert parsing.rewritten(shlex.split(typed), command) == shlex.split(SHORT[typed])


def test_names_that_are_like_none_are_answered_by_meanings(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text("trainer: verl\n")
    typed = "run --method importance", "judge a b --doubt 3", "advise s.yaml", "run --system areal"
    lines = [refusal(words).splitlines()[1:] for words in typed]
    assert len(lines[0]) == 8 and any(line.startswith("  truncated_is: Truncated importance") for line in lines[0])
    assert len(lines[1]) > 12 and any(line.startswith("  --error: ") for line in lines[1])
    assert lines[2] == [f"  {name}: {words}" for name, (usual, words) in FIELDS.items() if usual is ...][1:]
    assert lines[3][0] == "  max_head_offpolicyness  eta, staleness limit in versions" and "  load " in lines[3][3]
    with pytest.raises(calls.Lacking, match=r"(?s)it has .*\n  parameters: final"):
        _ = TRACE.parameter_count
    error = refused("it takes a, b, metric", sim.judge_runs, confidence_level=0.9)
    assert "\n  error: " in error.__notes__[0] and "\n  metric: " in error.__notes__[0]


def test_a_file_that_fails_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text("import math\n\n\ndef f():\n    return math.nothing\n\n\nvalue = f()\n")
    said = refusal("run --method bad.py:f")
    assert "AttributeError: module 'math' has no attribute 'nothing'" in said and "fix line 5 of bad.py" in said
    assert "write module:name or path/to/file.py:name" in refusal("run --method no_such_module:f")


def test_methods_that_coincide_on_a_task_send_to_another():
    """Of one token, ratios of sequences and of tokens are the same; no harder task of that kind tells them apart."""
    said = call("compare grpo gspo --smallest 0.05 --updates 20 --tune none").output
    assert "so the two are the same on this task" in said and "a harder task" not in said


def test_claims_are_listed_by_family():
    lines = call("list claims ess").output.splitlines()
    assert len(lines) == 4 and all(line.startswith("ess/") for line in lines)


def test_words_without_their_part_are_arguments_of_the_one_part_that_takes_them():
    words = "run --method ppo-clip --link adam --updates 4 --print-spec --set adam.lr=0.1 --set method.low=0.3"
    full = call(words)
    assert call(words.replace("adam.lr", "lr").replace("method.low", "low")) == full
    assert full.exit_code == 0 and '"low": 0.3' in full.output
    # Two parts take a rate here, one of another name takes alpha: neither is guessed.
    refused("--set = 'lr'.*sgd.lr=0.1", wording.of_words, ["link=sgd,adam", "lr=0.1"], "--set")
    refused("--set = 'learning_rate'.*sgd.lr=0.1", wording.of_words, ["learning-rate=0.1"], "--set")
    specs = wording.specs_of(["grpo", "m: cispo", "method=reinforce"], ["staleness=2"])
    assert [spec.method.name for spec in specs.values()] == ["grpo", "cispo", "reinforce"] and "m" in specs


def test_messages_name_objects_not_their_addresses():
    assert checks.plain("Wrapped(f=<function damp at 0x7f8c>)") == "Wrapped(f=damp)"
    assert checks.plain("<mine.Plain object at 0x7f8c>") == "mine.Plain"
    meanings = {"seed": "of all draws", "staleness": "the lag in versions"}
    said = " ".join(checks.explained("max_lag", meanings, most=2).split())
    assert said == "staleness: the lag in versions seed: of all draws"


@pytest.mark.parametrize("name", WRITTEN)
def test_a_call_says_what_to_write(name):
    wrong, field, remedy = WRITTEN[name]
    assert re.search(remedy, str(refused(field, wrong)))


def test_a_list_of_claims_is_verified_one_by_one():
    assert [each.id for each in sim.verify(["ess/limit", "ess/clamp-floor"])] == ["ess/limit", "ess/clamp-floor"]


def test_all_unknown_arguments_of_a_call_are_answered_at_once():
    error = refused("grpo argument", lambda: sim.methods.grpo(clip=0.2, kl_coef=0.01, num_generations=8, whatever=1))
    assert str(error).endswith("did you mean low and high?")
    *notes, last, taken = error.__notes__
    assert notes == ["also kl_coef: did you mean kl?", "also num_generations: write Spec(samples_per_group=8)"]
    assert last == "also whatever: no such argument" and "\n  entropy: coefficient of an entropy bonus" in taken


def _plain(log_prob, advantages, mask):
    return -(log_prob * advantages * mask).sum() / len(mask)


def test_what_an_answer_lacks_is_answered_by_what_it_has():
    """Copies and pickles ask for names of their own."""
    trace = sim.run(SPEC.replace(updates=1, replicates=1), progress=False)
    system, estimate = sim.systems.areal(4, 8, length=3, load=1), trace.final("batch_return")
    verdict, schedule = sim.verify("ess/limit"), sim.schedules.fixed(4)
    timeline = system.timeline(batches=4)
    report = sim.conformance.check_loss(_plain, like="reinforce")
    found = sim.sweep(SPEC.replace(updates=1), {"staleness": [0]}, replicates=2, workers=1, progress=False)
    for subject, name, remedy in (
        (timeline, "staleness", r"write system.summary\(100\), with the keys staleness"),
        (timeline, "plot", r"write sim.plot\(timeline, 'x.png'\)"),
        (trace, "seconds_to", r"write trace.updates\[.*trace.seconds\(\)"),
        (SPEC.task, "replace", "make the part again"),
        (timeline, "df", r"write pandas.DataFrame\(timeline.groups\)"),
        (schedule, "timeline", ".*a schedule has no clock, so a timeline needs a system"),
        (report, "method", "write report.name"),
        (report, "errors", "write report.findings"),
        (report, "to_dict", r"write report.record\(\)"),
        (trace, "summary", r"write trace\.table\(\)"),
        (trace, "rows", r"write trace.table\(\)"),
        (found, "history", r"write sweep.table\(\)"),
        (found, "staleness", r"it has "),
        (SPEC, "copy", r"write spec.replace\(updates=100\)"),
        (SPEC, "to_yaml", r"write spec.save\('spec.yaml'\)"),
        (trace, "df", r"write trace.table\(\)"),
        (trace, "final_", "did you mean final"),
        (SPEC, "run", r"write sim.run\(spec\)"),
        (system, "run", r"write system.timeline\(batches=100\), or Spec\(system=system\)"),
        (estimate, "mean", "write estimate.value"),
        (RECORDED, "ess", r"write recorded\['ess'\]"),
        (RECORDED, "esss", "it has .*metrics"),
        (sim.evaluate(trace, BANDIT), "std", "write evaluated.low"),
        (trace, "to_json", "write trace.metrics"),
        (BANDIT.policy(), "save_pretrained", "write trace.export"),
        (trace, "to_csv", r"write trace.table\(\), a pandas DataFrame"),
        (trace, "values", r"write trace\['ess'\], an array"),
        (trace, "batch_return", r"write trace\['batch_return'\]"),
        (trace, "plot", r"write sim.plot\(trace, 'x.png'\)"),
        (verdict, "passed", "write verdict.verdict == 'held'"),
        (verdict, "to_dict", r"write verdict.row\(\)"),
        (verdict, "pasd", "it has .*reason, .*verdict"),
        (found, "df", r"write sweep.table\(\), a pandas DataFrame"),
        (found, "plot", r"write sim.plot\(sweep, 'x.png'\)"),
        (sim.diagnose({"kl_k3": [0.1] * 50}), "to_html", "write asyncsim diagnose LOG --html page.html"),
    ):
        with pytest.raises(AttributeError, match=f"{type(subject).__name__} has no '{name}'; {remedy}"):
            getattr(subject, name)
        assert type(copy.deepcopy(subject)) is type(pickle.loads(pickle.dumps(subject))) is type(subject)
    with pytest.raises(AttributeError, match=r"claim.point.example\(\)"):
        _ = sim.claims.claim("ess/limit").parameters
    with pytest.raises(TypeError, match=r"Spec is no mapping; write \.task"):
        SPEC["task"]
    with pytest.raises(TypeError, match=r"Sweep is no mapping; write sweep.table\(\)"):
        found["ess"]
    with pytest.raises(dataclasses.FrozenInstanceError, match=r"write spec = spec.replace\(method=...\)"):
        SPEC.method = SPEC.method
    with pytest.raises(TypeError, match=r"write estimate.value for its number"):
        _ = estimate + 1
    with pytest.raises(TypeError, match=r"write verdict.verdict == 'held'"):
        bool(verdict)
    assert report and not sim.conformance.check_loss(
        lambda log_prob, advantages, mask: -_plain(log_prob, advantages, mask)
    )
    assert f"{estimate:.3f}" == f"{estimate.value:.3f}"
    link = sim.updates.sgd(0.1)
    with pytest.raises(dataclasses.FrozenInstanceError, match=r"make another one: sim.updates.sgd\(..., lr=1\)"):
        link.lr = 1
    with pytest.raises(TypeError, match="Spec has no 'table'"):
        iter(SPEC)
    assert pandas.DataFrame(found).equals(found.table()) and [row["metric"] for row in found] == [*found.metrics]
    assert (
        RECORDED["ess"] is RECORDED.metrics["ess"] and "2 replicates" in repr(TRACE) and "1 replicate;" in repr(trace)
    )
    assert float(trace.final("batch_return")) == trace.final("batch_return").value


HOMES = {"Trace": sim, "Sweep": answers, "Answer": answers, "Verdict": sim, "Prediction": answers, "Diagnosis": sim}


@pytest.mark.parametrize(
    ("place", "remedy"),
    [
        ("load", "write sim.Trace.load('run.npz')"),
        ("Store", "asyncsim results ls --store FOLDER"),
        ("results", "asyncsim results ls --store FOLDER"),
        ("check_loss", "write sim.conformance.check_loss"),
        ("check_gae", "write sim.conformance.check_advantage"),
        ("EarlyStopping", "f is a function of one record"),
        ("callbacks.EarlyStopping", "f is a function of one record"),
        ("ratios.k3", "write (x.exp() - 1 - x).mean() for k3"),
        ("ratios.efective", "it has beyond, chi_square, "),
        ("conformance.check", "write sim.conformance.check_loss(loss, 'grpo')"),
        ("uncertainty.bootstap", "did you mean sim.uncertainty.bootstrap?"),
        ("seeds", "write sim.power({'A': spec, 'B': other}, effect=0.02)"),
        ("GRPO", "mean sim.methods.grpo?"),
        ("grpo", "mean sim.methods.grpo?"),
        ("spec", "mean sim.Spec?"),
        ("schedules.constant", "did you mean fixed?"),
        ("penalties.entropy", "write entropy=0.01 in the method"),
        ("penalties.kl", "did you mean k3?"),
        ("methods.token_tis", "truncated_is(level='token')"),
        ("report", "asyncsim verify CLAIMS --report page.html"),
        ("timeline", "write system.timeline(batches=100) of a system"),
        ("boundry", "mean sim.boundary?"),
        ("softmax_bandt", "mean sim.tasks.softmax_bandit?"),
        ("Experiment", "it has Spec, Trace, "),
        ("updates.from_function", "from asyncsim.updates import Stateless, link. It has adam, "),
        ("methods.from_function", "write sim.methods.from_loss(f)"),
    ],
)
def test_what_the_package_lacks_is_answered_by_what_it_has(place, remedy):
    """A guess across all kinds of parts is made only where it is very much alike."""
    with pytest.raises(AttributeError, match=re.escape(remedy)):
        operator.attrgetter(place)(sim)


def test_a_module_is_no_function_and_its_functions_answer_wrong_calls():
    x = torch.zeros(1, 8, dtype=torch.float64)
    assert sim.ratios.ess(x, torch.full_like(x, 1 / x.numel())).item() == 1.0
    for wrong, remedy in (
        (lambda: sim.conformance(1), "sim.conformance is a module; write sim.conformance.check_loss(loss, 'grpo')"),
        (lambda: sim.methods(1), "write sim.methods.NAME(...): it has a2c, "),
        (lambda: sim.ratios.ess(x), "then sim.ratios.ess(x, torch.full_like(x, 1 / x.numel())).item()"),
        (lambda: sim.ratios.ess(x[0], x[0]), "write x.reshape(1, -1) of the log weights x"),
        (lambda: sim.ratios.ess(x, x + 1), "each row = [8.0]: must be 1; write mask / mask.sum(-1, keepdim=True)"),
        (lambda: sim.diagnostics.kl(0.01), "a run records it with Spec(diagnostics=['kl'])"),
    ):
        with pytest.raises((TypeError, checks.InputError), match=re.escape(remedy)):
            wrong()


def test_advice_about_attributes_names_none_that_is_there():
    """It would never be read."""
    classes = {kind: getattr(module, kind) for kind, module in HOMES.items()}
    for key in checks.ANSWERS:
        kind, _, name = key.partition(" ")
        assert kind not in classes or not hasattr(classes[kind], name), key
        if kind == "sim":
            assert name not in dir(sim), key


ENVIRONMENT = """
import gymnasium, numpy, torch

class Lane(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        self.left = 5
        return numpy.zeros(3, numpy.float32), {}
    def step(self, action):
        self.left -= 1
        return numpy.full(3, self.left / 5, numpy.float32), float(action), self.left == 0, False, {}

gymnasium.register("Lane-v0", Lane, max_episode_steps=9)

def net():
    return torch.nn.Linear(3, 2)
"""


def ended(words, folder):
    """Where the metrics of a run ended."""
    return told(folder, *shlex.split(words))[1]


BARE = """
from asyncsim.diagnostics import ANY, metric
from asyncsim.updates import Stateless, link
@link
class half(Stateless):
    def apply(self, record, state):
        return record, state
called = metric(outputs=("log_prob",), range=ANY)(lambda step: step.share(step.mask))
"""


def test_an_environment_and_a_network_of_the_current_folder_run(tmp_path, monkeypatch, own_environments):
    """As an installed command finds them: Python was not told of the folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != ""])
    (tmp_path / "lanes.py").write_text(ENVIRONMENT)
    words = "run --task gym --set task.id=lanes:Lane-v0 --policy module --set policy.make=lanes.py:net --updates 2"
    found = ended(f"{words} --set policy.observation=3 --set policy.actions=2 --replicates 2 --samples 2", tmp_path)
    assert 0 < found["final"]["batch_return"]["value"] < 5 and found["spec"]["policy"] == "module"
    # A class of a file needs no registration, but a number of steps.
    (tmp_path / "links.py").write_text(BARE)
    words = "run --task gym --set task.id=lanes.py:Lane --set task.steps=5 --set link=links.py:half --updates 2"
    assert ended(f"{words} --replicates 2 --samples 2", tmp_path)["spec"]["update"][0].startswith("Half")
    called = sim.Spec(BANDIT, sim.schedules.fixed(0), SPEC.method, SPEC.update, diagnostics=["links.py:called"])
    refused(r"a value of step has no \(\), as step.share", sim.run, called, progress=False)
    refused("make = .*a file that exists", sim.policies.module, "no.py:net", 3, 2)


def test_penalties_and_factors_are_those_of_python(tmp_path):
    """Beside them a run without: the words must not be read and dropped."""
    words = "run --task token-bandit --staleness 2 --method truncated-is --updates 6 --replicates 2 --samples 8 "
    added = "--penalty k3 --set k3.coefficient=2 --factor token-mask --set token_mask.high=1.01 --set sgd.lr=1 "
    penalties, factors = [sim.penalties.k3(2.0)], [sim.factors.token_mask(high=1.01)]
    method = sim.methods.added(sim.methods.truncated_is(), penalties, factors)
    update = sim.chain(sim.updates.sgd(1.0))
    spec = sim.Spec(
        sim.tasks.token_bandit(), sim.schedules.fixed(2), method, update, samples_per_group=8, updates=6, replicates=2
    )
    assert sim.Spec.from_dict(json.loads(json.dumps(spec.to_dict()))).method == method
    wanted = {name: sim.run(spec).final(name).value for name in ("trained_return", "ess")}
    told = ended(words + added, tmp_path)["final"]
    plain = ended(f"{words} --set sgd.lr=1", tmp_path)["final"]
    assert {name: told[name]["value"] for name in wanted} == wanted
    assert all(plain[name]["value"] != wanted[name] for name in wanted)


def test_the_advantage_of_a_method_is_a_name(tmp_path):
    """`none` was taken for nothing given, and so for the usual baseline."""
    words = "run --updates 2 --replicates 2 --set method.advantage="
    assert ended(f"{words}none", tmp_path)["spec"]["advantage"] == "none"
    assert ended(f"{words}group_mean", tmp_path)["spec"]["advantage"] == "group_mean"


CLAIMS = """
import asyncsim as sim

class Silent(sim.claims.Claim):
    points = ({},)
    def predict(self):
        return {"mean": 4.0}
    def measure(self, point, effect, seed, plant):
        return {"mean": sim.Estimate(4.0, 0.01)}

class Right(Silent):
    "The mean is four."

class Short(Right):
    "The mean is four."
    def measure(self, point):
        return {}

class Asked(Right):
    "The mean is four."
    def predict(self, point):
        return {"mean": 4.0}

class Wrong(Right):
    "The mean is four."
    wrong = {"three": lambda: {"mean": 3.0}}

class Planted(Right):
    "The mean is four."
    defects = {"none": lambda spec: spec}

class Lost(Right):
    "The mean is four."
    def predict(self):
        return {"mean": self.staleness}

class Text(Right):
    "The mean is four."
    def predict(self):
        return {"mean": "four"}

class Root(Right):
    "The mean is four."
    points = ({}, {})
    def predict(self):
        raise ValueError("math domain error")

class Listed(Right):
    "The mean is four."
    wrong = [1]

class Lower(Right):
    "The mean is four."
    kind = "lower_bound"

class Divided(Right):
    "The mean is four."
    wrong = {"three": lambda s: {"mean": 3 / 0}}

class Coarse(Right):
    "The mean is four."
    def measure(self, point, effect, seed, plant):
        return {"mean": sim.Estimate(4.0, 1.0)}

class Far(Right):
    "The mean of x is four, up to a large x."
    x = sim.claims.Real(0.0, 9.0, doc="a number")
    points = ({"x": 1.0},)
    def predict(self):
        return {"mean": 4.0 / (self.x < 2.0)}
"""
BROKEN = """
import numpy as np
from mine import Right

def inverse():
    return np.linalg.inv(np.ones(3))

class Broken(Right):
    "The mean is four."
    def measure(self, point, effect, seed, plant):
        return {"mean": inverse()}

class Unknown(Right):
    "The mean is four."
    def measure(self, point, effect, seed, plant):
        import asyncsim
        return {"mean": asyncsim.systems.areal(eta=4)}
"""
# What is wrong with a claim, and what its message says.
REFUSED = {
    "Silent": "docstring = None: must be a statement; write what it states into the docstring",
    "Short": "must be a function with the arguments (self, point, effect, seed, plant)",
    "Asked": "must be a function with the arguments (self)",
    "Wrong": "wrong['three'] = 'too many positional arguments': must be a function with the arguments (s)",
    "Planted": "must be a function with the arguments (); write lambda: lambda spec: spec.replace(updates=2)",
    "Lost": "no attribute 'staleness'); fix line 35 of mine.py; parameters are s.NAME",
    "Text": "predict mean = 'four': must be a number",
    "Root": "must be computable at {} (ValueError: math domain error)",
    "Listed": "wrong = [1]: must be functions by name; write wrong = {'twice': lambda s: ...}",
    "Lower": "x >= L is -x <= -L, so predict {'-x': -L} and measure '-x'",
    "Divided": "wrong['three'] = None: must be computable at {} (ZeroDivisionError",
    "Far --at x=3": "mine.py:Far.predict = None: must be computable at {'x': 3} (ZeroDivisionError",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_claim_of_ones_own_is_refused_by_what_it_lacks(name, tmp_path, monkeypatch):
    """Beside each the claim that lacks nothing, which is measured."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CLAIMS)
    assert sim.verify("mine.py:Right").verdict == "holds, not tested"
    said = refusal(f"verify mine.py:{name}")
    assert REFUSED[name] in said and said.count("\n") == 1


def test_a_claim_of_ones_own_is_sent_to_where_it_helps(tmp_path, monkeypatch):
    """Its replicates stand in its own measure; and what is a claim is no loss."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CLAIMS)
    coarse = call("verify mine.py:Coarse")
    assert "Take more replicates in measure of mine.py:Coarse." in coarse.output and coarse.exit_code == 3
    assert "--seed" not in coarse.output
    assert "write asyncsim verify mine.py:Right" in refusal("conformance mine.py:Right")


def test_a_measurement_that_breaks_off_names_the_users_own_line(tmp_path, monkeypatch):
    """Not the line of the package or of numpy at which it broke."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine.py").write_text(CLAIMS)
    (tmp_path / "broken.py").write_text(BROKEN)
    assert refused("LinAlgError: 1-dimensional", sim.verify, "broken.py:Broken").remedy.startswith("fix line 6 of ")
    assert refused("areal argument", sim.verify, "broken.py:Unknown").remedy.startswith("fix line 17 of ")


def test_a_checkpoint_is_no_trace_and_a_sweep_takes_the_replicates_of_its_spec(tmp_path):
    """Its 16 were dropped silently for 64."""
    spec = SPEC.replace(updates=2, replicates=16)
    sim.run(spec, checkpoint=tmp_path / "c", progress=False)
    refused(".*write sim.run\\(spec, resume=path\\)", sim.Trace.load, tmp_path / "c")
    TRACE.save(tmp_path / "t.npz")
    refused(r"path = .*a saved trace is sim.Trace.load\('t.npz'\)", sim.predict, tmp_path / "t.npz")
    swept = [
        sim.sweep(spec, {"staleness": [0]}, workers=1, progress=False, **n).replicates for n in ({}, {"replicates": 8})
    ]
    assert swept == [16, 8]


@pytest.mark.parametrize("word", ["mine.py", "mine", "Silent"])
def test_the_place_of_a_claim_is_named(word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CLAIMS)
    wrong = refused("claim", sim.verify, word)
    assert "write mine.py:Silent" in wrong.remedy and ("mine.py:Right" in wrong.remedy) == (word != "Silent")


def test_what_is_listed_is_what_can_be_chosen():
    """Functions that make a part stand in lists, what is internal nowhere; both are reached."""
    assert {"module", "mlp"} <= set(dir(sim.policies)) and "engines" not in dir(sim.policies)
    assert {"from_loss", "added", "grpo"} <= set(dir(sim.methods)) and callable(sim.policies.engines.int8)
    for kind, names in {"policies": {"module"}, "methods": {"from_loss", "added"}}.items():
        rows = {row["name"]: row["summary"] for row in json.loads(call("list", kind, "--json").output)}
        assert names <= set(rows) and "engines" not in rows and all(rows.values())


def test_lists_fit_a_terminal_and_stay_whole_in_a_pipe(monkeypatch):
    widest, refused = [], []
    for terminal, columns in ((True, "80"), (False, ""), (False, "80")):
        monkeypatch.setenv("COLUMNS", columns) if columns else monkeypatch.delenv("COLUMNS", raising=False)
        monkeypatch.setattr("asyncsim.app.streams.Stream.isatty", lambda self, terminal=terminal: terminal)
        widest.append([len(line) for line in call("list").output.splitlines()])
        refused.append(refusal("list areal").splitlines())
    assert max(widest[0]) <= 80 < max(widest[1]) and len(widest[1]) < len(widest[0])
    # A width that is asked for holds in a pipe as well.
    assert widest[2] == widest[0] and refused[2] == refused[0] and max(map(len, refused[0])) <= 80
    # A refusal breaks no word, so that a command can be copied.
    assert [" ".join(" ".join(refused[0]).split())] == refused[1] and len(refused[0]) > 2


def test_names_that_are_imported_or_looked_up_are_answered():
    """As attributes are: Python drops the message of an attribute that is imported."""
    for line, said in (
        ("from asyncsim import Trainer", "write sim.run"),
        ("from asyncsim.methods import grp0", "did you mean grpo"),
    ):
        with pytest.raises(ImportError, match=said):
            exec(line)
    assert not hasattr(sim, "Trainer") and not hasattr(sim.methods, "grp0")
    found = sim.systems.areal(1, 2, 4, length=1.0, load=1.5).summary(40)
    assert found == json.loads(json.dumps(found)) and found["staleness"]["p99"] == found["staleness"]["max"] == 1
    for key, said in (("staleness_p99", r"write \['staleness'\]\['p99'\]"), ("zzz", "it has staleness, ")):
        with pytest.raises(KeyError, match=said):
            found[key]


def test_asking_in_vain_for_a_name_costs_no_search(monkeypatch):
    """The event model asks its settings for names that they lack, for every realization."""
    system = sim.systems.areal(1, 2, 4, length=1.0, load=1.0)
    monkeypatch.setattr("asyncsim.base.checks.near", lambda *given, **more: pytest.fail("searched"))
    assert not hasattr(system, "statement") and getattr(system, "nope", 3) == 3
    monkeypatch.undo()
    with pytest.raises(AttributeError, match="System has no 'tikets'; did you mean tickets"):
        _ = system.tikets
    with pytest.raises(AttributeError) as lacking:
        _ = system.tikets
    assert str(pickle.loads(pickle.dumps(lacking.value))) == str(lacking.value)


@pytest.mark.parametrize(
    ("name", "low", "high", "doubts"), [("grpo", 0.8, 1.2, 1), ("grpo", 0.2, 0.28, 0), ("bapo_code", 0.6, 1.2, 0)]
)
def test_bounds_of_a_ratio_are_doubted_where_distances_from_1_are_asked_for(name, low, high, doubts, recwarn):
    wording.build("methods", name, {"low": low, "high": high})
    assert len([each for each in recwarn if "write low=0.2, high=0.2" in str(each.message)]) == doubts


def test_a_column_is_divided_where_no_column_has_that_name(tmp_path):
    pandas.DataFrame({"ms": [500.0, 1500.0], "pass/2": [4.0, 6.0]}).to_csv(path := tmp_path / "delays.csv", index=False)
    assert measured.column("delays", f"{path}:ms/1000")[1].tolist() == [0.5, 1.5]
    assert measured.column("delays", f"{path}:pass/2")[1].tolist() == [4.0, 6.0]
    refused("delays column = 'ms/0'", measured.column, "delays", f"{path}:ms/0")


def test_units_and_expectations_that_cannot_be_meant_are_doubted(recwarn):
    sim.diagnose(TABLE, staleness=4)
    given = {**SYSTEM, "response_lengths": "lognormal:7.2:0.8", "tokens_per_second": 0.02}
    advising.read(given, Path())
    said = "\n".join(str(each.message) for each in recwarn)
    assert (
        "staleness = 4 is not tested" in said and "write lognormal:1845:0.8" in said and "is small; is its unit" in said
    )


def test_a_single_limit_is_not_recommended_and_advice_is_a_table():
    rows = SYSTEM | {"response_lengths": 1000, "staleness_limit": 2, "prompts_per_batch": 4}
    one, several = (sim.advise(rows | {"staleness_limit": each}) for each in (2, [0, 2]))
    assert "Only" in one.sentence and "[0, 1, 2, 4]" in one.sentence and "Set" not in one.sentence
    assert several.sentence.startswith("Set ")
    with pytest.raises(AttributeError, match=r"write advice.table\(\)"):
        _ = one.to_frame
    assert list(one.table()["seconds_mean"]) == [one.knee.mean("seconds")] and "machine_hours_low" in one.table()


def test_samples_are_calibrated_with_the_columns_that_the_log_asked_for(tmp_path):
    """The message said `--columns sample_id=...`, and what followed it was refused by the reader of steps."""
    step = np.repeat(np.arange(30), 4)
    rows = pandas.DataFrame({"uid": range(120), "step": step, "begun": np.maximum(step - 1, 0), "n": 100 + step % 7})
    rows.to_csv(tmp_path / "samples.csv", index=False)
    columns = "sample_id=uid,train_version=step,start_version=begun,tokens=n"
    settings = {"slots_per_machine": 8, "staleness_limit": 1, "train_seconds": 4, "tokens_per_second": 30}
    made = sim.calibrate(tmp_path / "samples.csv", "verl", columns=columns, **settings)
    assert made.fields["prompts_per_batch"] * made.fields["samples_per_prompt"] == 4
    assert "each sample is taken as a prompt of its own" in str(made)
    remedy = "map the log's column of groups: columns='group_id=THEIRS'"
    wrong = settings | {"samples_per_prompt": 4}
    refused(
        f"samples_per_prompt = 4: must be 1.*{remedy}",
        sim.calibrate,
        tmp_path / "samples.csv",
        "verl",
        columns=columns,
        **wrong,
    )
    refused(r"samples\.jsonl", sim.calibrate, rows, "verl", columns=columns, **settings)


def test_a_log_without_ids_is_read_with_the_columns_of_its_message(tmp_path):
    step = np.repeat(np.arange(30), 4)
    rows = pandas.DataFrame({"rollout_version": np.maximum(step - 1, 0), "trainer_version": step})
    rows.to_csv(tmp_path / "two.csv", index=False)
    error = refused("", lambda: sim.schedules.replay(tmp_path / "two.csv", unit="publishes"))
    columns = re.search("columns='(.*?)'", str(error))[1]
    assert columns == "sample_id=row:,train_version=trainer_version,start_version=rollout_version"
    schedule = sim.schedules.replay(tmp_path / "two.csv", unit="publishes", columns=columns)
    assert "mean 0.967" in schedule.log.text()
    with pytest.raises(AttributeError, match=r"print\(schedule.log.text\(\)\)"):
        _ = schedule.staleness


def test_an_arm_whose_links_replace_those_of_all_arms_is_named(recwarn, capsys):
    """Not one that has them too."""
    wording.specs_of(["link=sgd", "m: link=clip-norm,adam", "link=adam,scale"], ["link=adam", "lr=0.1"])
    said = [str(each.message) for each in recwarn if issubclass(each.category, checks.RunWarning)]
    assert said == ["arm link=sgd has its own link, in place of link=adam of all arms; for both write link=adam,sgd"]
    sweeping.grid_of(["link=adam", "lr=0.1"], ["link=sgd,adam"])
    assert "so link=adam of all settings is left out" in capsys.readouterr().err


def test_names_behind_commas_are_links_and_ids_have_any_case(tmp_path):
    words = "run --updates 2 --replicates 2 --link clip-norm,adam --set adam.lr=0.1 --penalty k3,k2"
    found = ended(words, tmp_path)
    assert "norm_before_clip" in found["final"]
    assert ended(words.replace(",k2", " --penalty k2"), tmp_path)["spec"] == found["spec"]
    assert sim.verify("ESS/limit").id == "ess/limit"
    refused("claim = '2603.01501/alignment'.*alignment/snr", sim.verify, "2603.01501/alignment")


def test_rates_that_are_tuned_or_too_small_are_named():
    two = f"{TWO} --set sgd.lr=0.3 --set updates=2 --smallest 0.5"
    long = "run --task token-bandit --method grpo --updates 10 --set task.horizon=300"
    tuned, flat = "sgd.lr=0.3 is where that begins; --tune none keeps it", "write --set sgd.lr=VALUE, a larger one"
    for words, line, said in (
        (two, tuned, True),
        (f"{two} --tune none", tuned, False),
        (long, flat, True),
        (f"{long} --set sgd.lr=0.1", "at sgd.lr=0.1 the run gained ", True),
        (f"{long} --set task.horizon=3".replace(" --set task.horizon=300", ""), flat, False),
    ):
        assert (line in call(words).stderr) == said, words


SHARED = "system.load=1.5 --set system.length=1 --set system.groups_per_batch=8"
SUGGESTED = {
    "compare rloo grpo": "method=reinforce advantage=leave_one_out",
    "compare ppo-clip gspo --set gspo.low=0.2": "'method=gspo method.low=0.2'",
    "compare method=gspo,method.low=0.2 grpo": '"method=gspo method.low=0.2" in quotes',
    "compare ppo-clip gspo --against ppo-clip": "the first arm is what the others are compared with",
    f"compare system=tba system=synchronous --set {SHARED}": "as 'system=tba system.load=1.5'",
    "verify tba": "the page paper_figures/tba.md of the repository tests this paper",
    "verify 2503.18929": "the page paper_figures/tba.md of the repository tests this paper",
    "list papers tba": "asyncsim verify optimum/tba-lag-invariance its exact result",
    "run --method trl": "--system NAME",
}


@pytest.mark.parametrize("typed", SUGGESTED)
def test_what_other_people_call_it_leads_to_what_there_is(typed):
    assert SUGGESTED[typed] in refusal(typed, *["--smallest", "0.1"] * typed.startswith("compare"))


PAPERS = {word.partition(" ")[2]: row for word, row in checks.ANSWERS.items() if word.startswith("paper ")}


def test_papers_lead_to_a_page_and_parts_that_exist():
    pages = {row.split(" | ")[2] for row in PAPERS.values()}
    assert pages and all((Path(__file__).parents[2] / page).is_file() for page in pages)
    named = [name for row in PAPERS.values() for name in re.findall(r"[a-z0-9]+(?:_[a-z0-9]+)+", row.split(" | ")[1])]
    assert named and all(plugins.kinds_of(name) for name in named)
    assert {each.paper for each in sim.claims.papers().values()} <= {*PAPERS}, "each paper of the list has a name"


@pytest.mark.parametrize(
    "typed", ["verify {}", "list papers {}", "list {}", "run --method {}", "run --link {}", "compare {} grpo"]
)
def test_a_papers_name_leads_to_what_it_is_here_whatever_asks_for_it(typed, monkeypatch):
    """Of a paper with an entry of its own, and of one that only has a page."""
    monkeypatch.setattr("asyncsim.app.verdicts._measured", lambda *_: sys.exit(0))
    for word in ("gac", "bapo"):
        result = call(typed.format(word), *["--smallest", "0.1"] * typed.startswith("compare"))
        title, what, _ = PAPERS[word].split(" | ")
        said = result.output + result.stderr
        if result.exit_code == 0:
            assert word == "gac" and (title.partition(", ")[2] in said or typed.startswith("verify"))
        else:
            assert what in said or f"asyncsim list papers {word}" in said, said


def test_options_in_an_arm_are_its_words():
    """What a message wrote before failed where it was pasted."""
    _, words = wording.words_of("method=grpo --staleness 4 --system=tba --set method.low=-0.1")
    assert words == ["method=grpo", "staleness=4", "system=tba", "method.low=-0.1"]


def test_a_ratio_of_sequences_of_one_token_and_arms_of_one_curve_are_told():
    arms = ["method=gspo", "method=grpo method.low=0.3", "method=grpo method.low=0.4"]
    said = call("compare", *arms, "--smallest", 0.05, "--updates", 8, "--tune", "none", "--over", "end").output
    several = "for several tokens write --task token_bandit --set task.horizon=32"
    assert f"method=gspo: the ratio of a sequence equals that of its token, as sequences have one; {several}" in said
    assert f"{arms[1]} and {arms[2]} have the same curve: they are the same on this task" in said
    said = call("compare level=token level=sequence --method truncated-is --smallest 0.9 --tune none").output
    assert (
        "arms also differ in method.cap: level=token 2.0, level=sequence 8.0; method.cap=2.0 gives all arms one" in said
    )


def test_a_harder_task_than_bit_chain_is_a_longer_one():
    words = "compare grpo reinforce --task bit-chain --set task.horizon=1 --smallest 0.9 --updates 90 --tune none"
    said = call(words).output
    assert "remedy: a larger horizon, else fewer updates" in said and "such as bit_chain" not in said


UNANSWERED = "Controller|Meeting|Moments|Interrupted|Choice|Claim|Flag|Positive|Real|Staleness|Vector|Estimate"
"""Protocols, named tuples, exceptions and fields of claims, which nobody calls by mistake."""


def public(module, at):
    """Public functions and classes of a module by their place, and of the modules in it."""
    for name in module._known() if hasattr(type(module), "_known") else module.__all__:
        if inspect.ismodule(value := getattr(module, name)):
            yield from public(value, f"{at}.{name}") if at == "sim" else ()
        elif callable(value) and not re.fullmatch(UNANSWERED, name):
            yield f"{at}.{name}", value


@pytest.mark.parametrize("given", [{"nonsense_option": 1}, "run.npz"])
def test_every_public_call_answers_wrong_arguments(given, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sim, "__all__", [*sim.PACKAGES, *sim.NAMES], raising=False)
    strange = {}
    for place, function in public(sim, "sim"):
        try:
            function(**given) if isinstance(given, dict) else function(given)
        except sim.InputError as error:
            if not error.remedy:
                strange[place] = str(error)
        except Exception as error:
            strange[place] = error
    assert not strange
