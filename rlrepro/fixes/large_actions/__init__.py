"""Q-learning and soft actor-critic over tens of thousands of actions in bounded memory.

FactoredQ needs torch alone, FactoredDQN and FactoredSAC tensordict as well, SharedActionBuffer torchrl, and
PearlFactoredQ Pearl.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "factored_dqn": ["FactoredDQN"],
        "factored_q": ["FactoredQ", "expected_minimum"],
        "factored_sac": ["FactoredSAC"],
        "pearl": ["PearlFactoredQ"],
        "shared_action_buffer": ["SharedActionBuffer"],
    },
)
