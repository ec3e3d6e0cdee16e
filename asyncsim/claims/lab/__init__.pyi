from asyncsim.claims.lab import chains as chains
from asyncsim.claims.lab import kernel_defects as kernel_defects
from asyncsim.claims.lab import live_runs as live_runs
from asyncsim.claims.lab import mdp as mdp
from asyncsim.claims.lab import parts as parts
from asyncsim.claims.lab import paths as paths
from asyncsim.claims.lab import plants as plants
from asyncsim.claims.lab import quadratics as quadratics
from asyncsim.claims.lab import runs as runs
from asyncsim.claims.lab import sequences as sequences
from asyncsim.claims.lab import soft as soft
from asyncsim.claims.lab import threshold as threshold
from asyncsim.claims.lab import weights as weights
from asyncsim.claims.lab import windows as windows
from asyncsim.claims.lab.chains import *
from asyncsim.claims.lab.parts import *
from asyncsim.claims.lab.plants import *
from asyncsim.claims.lab.runs import *
from asyncsim.claims.lab.sequences import *
from asyncsim.claims.lab.threshold import *
from asyncsim.claims.lab.windows import *
