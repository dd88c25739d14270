"""What can't run or never does, and the files after which it can."""

from .doubtful import ON

RATES = f"import torch\nfrom agent import Agent\n{ON}Agent({{}}, {{}})"
METHODS = f"import torch\nfrom agent import Agent\n{ON}agent = Agent()\nagent.{{}}"
STARTS = """
import torch
from multiprocessing import Process
from worker import work
for k in range(8):
    Process(target=work).start()
"""
WORKER = "import torch\ndef work():\n    net = {}\n    net(torch.ones(1, 64)).backward()\n"
IMAGES = """
import torch
class Agent:
    def __init__(self, inputs):
        self.net = torch.nn.Conv2d(inputs, 32, 8)
    def act(self, observation):
        return self.net(torch.tensor([observation]))
"""
TRAINS = "import torch\ntorch.autograd.set_detect_anomaly(True)\ndef train(): torch.ones(1).backward()\n"
PLAIN = "def train(): pass\n"
NET = "class Net(torch.nn.Linear): pass\n"

BROKEN = {
    "an import that the project lacks": (
        "TO002",
        {"envs/__init__.py": "", "envs/maze.py": "", "train.py": f"import torch\nfrom envs.cave import Cave\n{ON}"},
        {"envs/cave.py": "class Cave: pass"},
    ),
    "a name that is bound nowhere": (
        "TO002",
        {"params.py": "", "train.py": f"import torch\nfrom params import *\n{ON}print(EPOCHS)"},
        {"params.py": "EPOCHS = 3"},
    ),
    "a name that the imported file lacks": (
        "TO002",
        {"agent.py": "class Agent: pass", "train.py": f"import torch\nfrom agent import Actor\n{ON}"},
        {"agent.py": "class Actor: pass"},
    ),
    "an imported file that can't be imported": (
        "TO002",
        {"nets.py": "", "agent.py": "from nets import Net", "train.py": f"import torch\nfrom agent import Agent\n{ON}"},
        {"agent.py": "class Agent: pass"},
    ),
    "a file that hides a library, unless it is in a package": (
        "TO002",
        {"typing.py": "Name = str", "train.py": f"import torch\nfrom typing import List\n{ON}"},
        {"__init__.py": ""},
    ),
    "a folder that hides a library, unless it is in a package": (
        "TO002",
        {"html/__init__.py": "", "html/page.py": "", "train.py": f"import torch\nfrom html.parser import X\n{ON}"},
        {"__init__.py": ""},
    ),
    "an unbound name that is more than an annotation": (
        "TO002",
        {"train.py": f"import torch\n{ON}def run(config): return Config\nrun(0)"},
        {"train.py": f"import torch\n{ON}def run(config: list[Config]) -> Config: return config\nrun(0)"},
    ),
    "a call without a required argument": (
        "TO002",
        {
            "agent.py": "class Agent:\n    def __init__(self, env, *, size=2, rate): pass",
            "train.py": RATES.format(1, ""),
        },
        {"train.py": RATES.format(1, "rate=2")},
    ),
    "a call with an unknown argument": (
        "TO002",
        {"agent.py": "def Agent(env, /, rate): pass", "train.py": RATES.format("env=1", "rate=2")},
        {"train.py": RATES.format(1, "rate=2")},
    ),
    "a call with options and an unknown argument": (
        "TO002",
        {"agent.py": "def Agent(env, rate=1): pass", "train.py": RATES.format("1", "size=2, **vars()")},
        {"train.py": RATES.format("1", "rate=2, **vars()")},
    ),
    "a call of a method that its class lacks": (
        "TO002",
        {"agent.py": "class Agent:\n    def fit(self): pass", "train.py": METHODS.format("train()")},
        {"train.py": METHODS.format("fit()")},
    ),
    "a call of a method with an unknown argument": (
        "TO002",
        {
            "agent.py": "class Base:\n    def act(self, obs): pass\nclass Agent(Base): pass",
            "train.py": METHODS.format("act(s=1)"),
        },
        {"train.py": METHODS.format("act(obs=1)")},
    ),
    "a module that is elsewhere by now": (
        "TO002",
        {"agents/utils.py": "def load(): pass", "train.py": f"import torch\nfrom utils import load\n{ON}"},
        {"train.py": f"import torch\nfrom agents.utils import load\n{ON}"},
    ),
    "a module with a name of the project's own that is elsewhere": (
        "TO002",
        {"sac/sac_learn.py": "def load(): pass", "train.py": f"import torch\nfrom sac_learn import load\n{ON}"},
        {"train.py": f"import torch\nfrom sac.sac_learn import load\n{ON}"},
    ),
    "a module whose importer can't start, unless that is a package": (
        "TO002",
        {"train.py": "from .envs import *\nfrom .algo import *", "algo.py": TRAINS, "plot.py": ""},
        {"train.py": "", "__init__.py": "from .envs import *\nfrom .algo import *"},
    ),
    "a module whose name is written otherwise": (
        "TO002",
        {"Environment.py": "class Maze: pass", "train.py": f"import torch\nfrom environment import Maze\n{ON}"},
        {"train.py": f"import torch\nfrom Environment import Maze\n{ON}"},
    ),
    "a backward pass that is not called": (
        "TO002",
        {"train.py": f"import torch\n{ON}".replace("backward()", "backward")},
        {"train.py": f"import torch\n{ON}"},
    ),
    "processes that fail at a name that is bound nowhere": (
        "PT001",
        {"worker.py": WORKER.format("Net(64, 1)"), "train.py": STARTS},
        {"worker.py": NET + WORKER.format("Net(64, 1)")},
    ),
    "a module whose only importer can't start": (
        "TO002",
        {
            "tools/__init__.py": "from .logo import *",
            "tools/log.py": "",
            "tools/out.py": "",
            "net.py": TRAINS,
            "main.py": "from tools import *\nimport net",
        },
        {"tools/logo.py": ""},
    ),
    "a module whose only importer can't start, unless it is a script": (
        "TO002",
        {"main.py": "from .envs import *\nimport net", "net.py": TRAINS, "plot.py": ""},
        {"net.py": f"{TRAINS}if __name__ == '__main__':\n    train()"},
    ),
    "a script that something else imports, unless it can't start itself": (
        "TO002",
        {"utils.py": "", "train.py": f"import torch\nfrom utils import load\n{ON}", "eval.py": "import train"},
        {"train.py": f"import torch\n{ON}", "eval.py": "from utils import load\nimport train"},
    ),
    "a missing module, unless a file with its name imports a library": (
        "TO002",
        {"envs/dm_maze.py": "", "train.py": f"import torch\nfrom dm_maze import Maze\n{ON}"},
        {"envs/dm_maze.py": "import dm_maze"},
    ),
    "a class that every caller fails to create": (
        "TO001",
        {"agent.py": IMAGES, "train.py": "from agent import Agent\nAgent().act(0)"},
        {"train.py": "from agent import Agent\nAgent(4).act(0)"},
    ),
    "a copy of the module that is imported": (
        "TO002",
        {"run/train.py": "import net", "run/net.py": PLAIN, "results/net.py": TRAINS},
        {"run/net.py": TRAINS, "results/net.py": ""},
    ),
    "a copy of the module that is imported, unless it is loaded by its name": (
        "TO002",
        {"run/train.py": "import net", "run/net.py": PLAIN, "results/net.py": TRAINS},
        {"results/load.py": "import importlib"},
    ),
}
