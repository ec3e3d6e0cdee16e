"""asyncsim: a laboratory for asynchronous policy-gradient learning."""

from asyncsim import advantages as advantages
from asyncsim import claims as claims
from asyncsim import conformance as conformance
from asyncsim import diagnosing as diagnosing
from asyncsim import diagnostics as diagnostics
from asyncsim import factors as factors
from asyncsim import live as live
from asyncsim import methods as methods
from asyncsim import penalties as penalties
from asyncsim import policies as policies
from asyncsim import rewards as rewards
from asyncsim import schedules as schedules
from asyncsim import systems as systems
from asyncsim import tasks as tasks
from asyncsim import testing as testing
from asyncsim import updates as updates
from asyncsim.app.verifying import verify as verify
from asyncsim.base import laws as laws
from asyncsim.base import uncertainty as uncertainty
from asyncsim.base.checks import InputError as InputError
from asyncsim.base.laws import constant as constant
from asyncsim.base.laws import empirical as empirical
from asyncsim.base.laws import exponential as exponential
from asyncsim.base.laws import gamma as gamma
from asyncsim.base.laws import lognormal as lognormal
from asyncsim.base.laws import pareto as pareto
from asyncsim.base.laws import uniform as uniform
from asyncsim.base.records import Estimate as Estimate
from asyncsim.base.records import Schedule as Schedule
from asyncsim.base.records import Timeline as Timeline
from asyncsim.base.records import Verdict as Verdict
from asyncsim.base.trace import Trace as Trace
from asyncsim.comparing import compare as compare
from asyncsim.comparing import power as power
from asyncsim.diagnosing import Diagnosis as Diagnosis
from asyncsim.diagnosing import Signal as Signal
from asyncsim.diagnosing import diagnose as diagnose
from asyncsim.diagnosing import judge_runs as judge_runs
from asyncsim.diagnosing import predict as predict
from asyncsim.exporting.exports import export_link as export_link
from asyncsim.exporting.exports import export_loss as export_loss
from asyncsim.forecasting import calibrate as calibrate
from asyncsim.forecasting import forecast as forecast
from asyncsim.plotting import plot as plot
from asyncsim.plotting._metrics import points as points
from asyncsim.running import callbacks as callbacks
from asyncsim.running.evaluating import evaluate as evaluate
from asyncsim.running.running import Interrupted as Interrupted
from asyncsim.running.running import run as run
from asyncsim.running.spec import Spec as Spec
from asyncsim.sampling import oracle as oracle
from asyncsim.step import ratios as ratios
from asyncsim.sweeping import advise as advise
from asyncsim.sweeping import boundary as boundary
from asyncsim.sweeping import stored as stored
from asyncsim.sweeping import sweep as sweep
from asyncsim.updates._link import chain as chain
from asyncsim.validation import judge as judge

__version__: str
PACKAGES: tuple[str, ...]
NAMES: dict[str, str]
