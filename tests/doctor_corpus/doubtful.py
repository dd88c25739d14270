"""What may never run, or hardly matters, and the files after which it does."""

DEBUG = (
    "import torch\ndef debug():\n    torch.autograd.set_detect_anomaly(True)\ndef train(): torch.ones(1).backward()\n"
)
AGENT = "import torch\nclass Agent:\n    def learn(self):\n        torch.autograd.set_detect_anomaly(True)\n"
RUN = {"train.py": "from agent import debug\ndebug()\n"}
ON = "torch.autograd.set_detect_anomaly(True)\ntorch.ones(1).backward()\n"
ROLLOUT = """
import torch
net = torch.nn.Conv2d(4, 32, 8)
def update(obs, optimizer):
    {}old = net(obs)
    for batch in obs.split(64):
        (net(batch) - old).mean().backward()
update(rollout(), optimizer)
def rollout(): pass
optimizer = torch.optim.Adam(net.parameters())
"""

ON_IN_FILE = f"import torch\n{ON}"
SAMPLED = """
import random
import gym
import torch
def learn(memory, {}):
    states, actions = zip(*random.sample(memory, 32))
    return torch.FloatTensor(states)
learn([])
{}
"""
ONE_IMAGE = """
import torch
net = torch.nn.Conv2d(4, 32, 8)
def {0}(observation):
    return torch.tensor([observation])
{0}(0)
"""
OPTIONAL = """
import torch
net = torch.nn.Conv2d(4, 32, 8)
def choose_action(observation, args, frames):
    if {}:
        return torch.tensor([observation])
choose_action(0, 0, 0)
"""
PROCESSES = """
import torch
from multiprocessing import Process
net = torch.nn.Conv2d(4, 32, 8)
def work(policy):
    {}
for k in range(8):
    Process(target=work).start()
"""
WORKERS = """
import gymnasium as gym
import torch
from multiprocessing import Process
STATE = gym.make("CartPole-v1").observation_space.shape[0]
net = torch.nn.Sequential(torch.nn.Linear(STATE, {0}), torch.nn.Tanh(), torch.nn.Linear({0}, {1}))
def work(states):
    net(states).sum().backward()
for k in range(8):
    Process(target=work).start()
"""
JAX = """
import flax
import torch
from {} import SAC
torch.autograd.set_detect_anomaly(True)
SAC("MlpPolicy", "Pendulum-v1").learn(1000)
"""
TEMPLATE = "import torch\ntorch.autograd.set_detect_anomaly(True)\ndef train(): torch.ones(1).backward()\n"
ONE_BY_ONE = """
import torch
from multiprocessing import Process
from torch.distributions import Categorical
net = torch.nn.Sequential(torch.nn.Linear(4, {0}), torch.nn.ReLU(), torch.nn.Linear({0}, 2))
def work(env):
    log_probs, obs = [], env.reset()
    for _ in range(20):
        actions = Categorical(logits=net(obs))
        action = actions.sample()
        obs, reward = env.step(action)
        log_probs.append(actions.log_prob(action))
    loss = torch.stack(log_probs).sum()
    {1}
    loss.backward()
for k in range(8):
    Process(target=work).start()
"""
WIDTHS = """
import torch
from multiprocessing import Process
def build(states, actions, sizes):
    return torch.nn.Sequential(torch.nn.Linear(states, {0}), torch.nn.Tanh(), torch.nn.Linear({1}, actions))
net = build(4, 2, [400, 300])
def work(states):
    net(states).sum().backward()
for k in range(8):
    Process(target=work).start()
"""
POSITIONS = """
import torch
net = torch.nn.Conv2d(4, 32, 8)
state = net.weight.numpy()
def learn(batch):
    states = [sample[0] for sample in batch]
    return torch.tensor(states)
learn([{}])
"""

DOUBTFUL = {
    "a function that nothing calls": ("TO002", {"agent.py": DEBUG}, RUN),
    "a function that only tests call": ("TO002", {"agent.py": DEBUG, "tests/test_agent.py": RUN["train.py"]}, RUN),
    "a function that only an unused one calls": ("TO002", {"agent.py": DEBUG + "def main():\n    debug()\n"}, RUN),
    "a function that settings may name": ("TO002", {"agent.py": DEBUG}, {"run.yaml": "call: agent.debug"}),
    "an interface of a package that can't be installed": (
        "TO002",
        {"agents/__init__.py": "from agents.agent import debug", "agents/agent.py": DEBUG},
        {"setup.py": ""},
    ),
    "a class whose namesake is created": (
        "TO002",
        {"agent.py": AGENT, "other.py": "class Agent: pass", "train.py": "from other import Agent\nAgent().learn()"},
        {"train.py": "from agent import Agent\nAgent().learn()"},
    ),
    "a template that nothing imports": (
        "TO002",
        {"template.py": TEMPLATE, "train.py": "def train(): pass"},
        {"train.py": "import template"},
    ),
    "code that is only kept": ("TO002", {"old/train.py": ON_IN_FILE}, {"old/train.py": "", "new/train.py": ON_IN_FILE}),
    "a script that trains nothing": (
        "TO002",
        {"watch.py": "import torch\ntorch.autograd.set_detect_anomaly(True)\nprint(play())\ndef play(): pass"},
        {"watch.py": "import torch\ntorch.autograd.set_detect_anomaly(True)\ntrain()\ndef train(): pass"},
    ),
    "samples that may be lists of numbers": (
        "TO001",
        {"train.py": POSITIONS.format("(state.tolist(), 0)")},
        {"train.py": POSITIONS.format("(state, 0)")},
    ),
    "short vectors, whatever their number": (
        "TO001",
        {"train.py": SAMPLED.format("batch_size=256", ""), "run.sh": "python train.py --env CartPole-v1"},
        {"run.sh": "python train.py --env Hopper-v4"},
    ),
    "vectors beside a network for images": (
        "TO001",
        {"train.py": SAMPLED.format("size=64", "net = torch.nn.Conv2d(4, 32, 8)\ngym.make('CartPole-v1')")},
        {"train.py": SAMPLED.format("size=64", "net = torch.nn.Conv2d(4, 32, 8)\ngym.make('ALE/Pong-v5')")},
    ),
    "boards beside a network with small kernels": (
        "TO001",
        {"train.py": SAMPLED.format("size=512", "net = torch.nn.Conv2d(4, 8, 3, padding=1)")},
        {"train.py": SAMPLED.format("size=512", "net = torch.nn.Conv2d(4, 8, 3, stride=2)")},
    ),
    "one image for each update": (
        "TO001",
        {"train.py": ONE_IMAGE.format("loss")},
        {"train.py": ONE_IMAGE.format("choose_action")},
    ),
    "an image that an option asks for": (
        "TO001",
        {"train.py": OPTIONAL.format("args.frames > 1")},
        {"train.py": OPTIONAL.format("frames > 1")},
    ),
    "processes of which only names say what they compute": (
        "PT001",
        {"train.py": PROCESSES.format("policy.act(net)")},
        {"train.py": PROCESSES.format("net(policy).sum().backward()")},
    ),
    "products too small to be shared among threads": (
        "PT001",
        {"train.py": WORKERS.format(10, 2)},
        {"train.py": WORKERS.format(64, 2)},
    ),
    "layers too small for Adam to use several threads": (
        "PT001",
        {"train.py": WORKERS.format(16, 128)},
        {"train.py": WORKERS.format(16, 256)},
    ),
    "small layers that get one state at a time": (
        "PT001",
        {"train.py": ONE_BY_ONE.format(64, "")},
        {"train.py": ONE_BY_ONE.format(64, "loss += net(torch.stack(env.states)).sum()")},
    ),
    "larger layers that get one state at a time": (
        "PT001",
        {"train.py": ONE_BY_ONE.format(64, "")},
        {"train.py": ONE_BY_ONE.format(640, "")},
    ),
    "one state at a time, unless the ratio is taken to kept probabilities": (
        "PT001",
        {"train.py": ONE_BY_ONE.format(64, "")},
        {"train.py": ONE_BY_ONE.format(64, "loss = torch.exp(env.evaluate() - loss)")},
    ),
    "small layers beside a recurrent cell": (
        "PT001",
        {"train.py": ONE_BY_ONE.format(64, "")},
        {"train.py": ONE_BY_ONE.format(64, "cell = torch.nn.LSTMCell(64, 128)")},
    ),
    "layers whose widths are in a list": (
        "PT001",
        {"train.py": WIDTHS.format(10, 10)},
        {"train.py": WIDTHS.format("sizes[0]", "sizes[-1]")},
    ),
    "threads set late, by a call that still has an effect": (
        "PT003",
        {"train.py": f"{ON_IN_FILE}torch.set_num_threads(1)"},
        {"train.py": f"{ON_IN_FILE}torch.set_num_interop_threads(1)"},
    ),
    "a script that hunts for an error": (
        "TO002",
        {"debug_nan.py": ON_IN_FILE},
        {"debug_nan.py": "", "nanny.py": ON_IN_FILE},
    ),
    "anomaly detection that another file switches off": (
        "TO002",
        {"first.py": ON_IN_FILE, "train.py": ON_IN_FILE.replace("True", "False")},
        {"train.py": ""},
    ),
    "training with JAX": (
        "TO002",
        {"train.py": JAX.format("sbx")},
        {"train.py": JAX.format("stable_baselines3")},
    ),
    "training in Ray's processes": (
        "TO002",
        {"train.py": f"import ray\n{ON_IN_FILE}".replace("torch.ones(1).backward()", "ray.tune.run('PPO')")},
        {"train.py": f"import ray\n{ON_IN_FILE}"},
    ),
    "a rollout without a graph": (
        "RO001",
        {"train.py": ROLLOUT.format("with torch.no_grad(): ")},
        {"train.py": ROLLOUT.format("")},
    ),
}
