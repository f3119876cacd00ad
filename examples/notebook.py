# %% [markdown]
# # Plan, compare, simulate
# A notebook as a script: editors run it cell by cell, and Jupyter opens it with jupytext. The last line of a
# cell shows itself.

# %%
from pathlib import Path
from typing import ClassVar, Final

import mooring

problem = mooring.Problem.load(Path(__file__).parent / "wide_area.yaml")
problem

# %% [markdown]
# ## One plan
# Its table shows the load of each site; below it is why the plan is as it is.

# %%
plan = mooring.plan(problem, "relaxation", settings={"probes": 10})
plan

# %%
plan.to_pandas().groupby("site").size()

# %%
plan.figure()

# %% [markdown]
# ## Several policies
# One of them is your own: any object with `name`, `about`, `unsupported` and `place`.


# %%
class AtTheFirstSite:
    """Everything at one site: as little network as can be, and no room."""

    name: ClassVar[str] = "one_site"
    about: Final = "network"

    def unsupported(self, problem: mooring.Problem) -> str | None:
        return None

    def place(self, problem: mooring.Problem, context: mooring.Context) -> mooring.Placement:
        first = problem.sites[0].name
        return mooring.Placement.from_dict(problem, {o.name: o.site or first for o in problem.operators})


compared = mooring.compare(problem, ["rod", "relaxation", AtTheFirstSite()])
compared

# %%
compared.figure()

# %% [markdown]
# ## How far can rates grow, and what do tuples see?

# %%
mooring.headroom(problem, plan)

# %%
report = mooring.simulate(problem, plan, seconds=2)
report

# %%
report.figure()

# %% [markdown]
# ## Keep it
# `mooring simulate wide_area.yaml --placement plan.json` reads the plan again. To run a project with a plan:
#
# ```python
# with mooring.run("my_project", placement="plan.json", adapt="headroom", act="apply") as run:
#     run.status()["last"]["sites"]
# ```

# %%
saved = plan.save("plan.json"), compared.save("comparison.json"), report.save("report.json")
saved
