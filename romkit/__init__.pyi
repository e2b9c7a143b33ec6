"""Public names and the modules where they live.

Type checkers read this file, and `__init__.py` loads each name at its first use from where it says.
"""

from romkit import assimilation as assimilation
from romkit import bases as bases
from romkit import branches as branches
from romkit import broadcast as broadcast
from romkit import certificates as certificates
from romkit import data as data
from romkit import ensemble as ensemble
from romkit import errors as errors
from romkit import explorer as explorer
from romkit import hidden as hidden
from romkit import integrators as integrators
from romkit import laws as laws
from romkit import learning as learning
from romkit import metrics as metrics
from romkit import plotting as plotting
from romkit import presets as presets
from romkit import problem as problem
from romkit import projections as projections
from romkit import readers as readers
from romkit import solvers as solvers
from romkit import systems as systems
from romkit import tasks as tasks
from romkit import testing as testing
from romkit import training as training
from romkit import types as types
from romkit.assimilation import Tracker as Tracker
from romkit.assimilation import assimilate as assimilate
from romkit.assimilation import calibrate as calibrate
from romkit.assimilation import infer as infer
from romkit.assimilation import sensors as sensors
from romkit.bases import basis as basis
from romkit.branches import continuation as continuation
from romkit.branches import verify as verify
from romkit.certificates import certify as certify
from romkit.hidden import hidden_context as hidden_context
from romkit.integrators import reduced_mesh as reduced_mesh
from romkit.learning import Learned as Learned
from romkit.learning import learn as learn
from romkit.learning.estimators import ProjectionTransformer as ProjectionTransformer
from romkit.learning.estimators import RunsRegressor as RunsRegressor
from romkit.models.timing import timed as timed
from romkit.verbs.bootstrap import bootstrap as bootstrap
from romkit.verbs.compare import compare as compare
from romkit.verbs.ensemble import Ensemble as Ensemble
from romkit.verbs.estimate import error_estimate as error_estimate
from romkit.verbs.export import export as export
from romkit.verbs.fit import fit as fit
from romkit.verbs.follow import follow as follow
from romkit.verbs.forecast import forecast as forecast
from romkit.verbs.hidden_manifold import hidden_manifold as hidden_manifold
from romkit.verbs.law import law as law
from romkit.verbs.rollout import rollout as rollout
from romkit.verbs.sample import Sample as Sample
from romkit.verbs.sample import sample as sample
from romkit.verbs.score import score as score
from romkit.verbs.simulate import simulate as simulate
from romkit.verbs.storage import load as load
from romkit.verbs.storage import open as open
from romkit.verbs.storage import save as save

__version__: str
