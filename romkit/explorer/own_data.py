"""The tab for data of one's own: load a file, fit a projection and a law, see the forecast."""

import io

import panel as pn
import xarray as xr

from romkit.core.errors import RomkitError
from romkit.data import describe, split
from romkit.integrators import LAWS
from romkit.plotting import plot_rollout
from romkit.projections import METHODS
from romkit.verbs.fit import fit
from romkit.verbs.runs import rollout


class OwnData:
    """From a netCDF file to a rollout of held-out trajectories."""

    def __init__(self):
        self.file = pn.widgets.FileInput(accept=".nc", multiple=False)
        self.method = pn.widgets.Select(label="projection", options=list(METHODS), value="ncae")
        self.law = pn.widgets.Select(label="law", options=list(LAWS), value="neural-ode")
        self.latent_dim = pn.widgets.IntInput(label="latent coordinates", value=2, start=1, end=20)
        self.epochs = pn.widgets.IntInput(label="epochs", value=100, start=1)
        self.button = pn.widgets.Button(label="fit", color="primary")
        self.said = pn.pane.Markdown("A netCDF file with dimensions `trajectory` and `time`.")
        self.picture = pn.pane.Matplotlib(None, tight=True, width=900)
        self.button.on_click(lambda event: self.run())

    def layout(self) -> pn.viewable.Viewable:
        settings = (self.file, self.method, self.law, self.latent_dim, self.epochs, self.button)
        return pn.Row(pn.Column(*settings, width=290), pn.Column(self.said, self.picture))

    def run(self) -> None:
        """Fit and follow; whatever is wrong with the file is said in one line."""
        if not self.file.value:
            self.said.object = "Choose a file first."
            return
        self.button.loading = True
        try:
            self._fit()
        except (RomkitError, ValueError, OSError) as error:
            self.said.object = f"**{error}**"
        finally:
            self.button.loading = False

    def _fit(self) -> None:
        with xr.open_dataset(io.BytesIO(self.file.value), engine="h5netcdf") as opened:
            data = describe(opened.load())
        train, test = split(data)
        settings = {"latent_dim": self.latent_dim.value, "epochs": self.epochs.value, "verbose": False}
        projection = fit(self.method.value, train, **settings)
        law = LAWS[self.law.value]().fit(projection, train)
        run = rollout(test, projection, dynamics=law)
        self.picture.object = plot_rollout(run)
        valid = float(run["valid_time"].median())
        self.said.object = f"held-out trajectories: median valid time {valid:.3g}"
