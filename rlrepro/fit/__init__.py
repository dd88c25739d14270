"""What fits on my GPU? Plans the memory of an update before anything is started, without a GPU and without memory."""

from rlrepro.lab.lazy_imports import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    extra="fit",
    submod_attrs={
        "marks": ["keeps_all", "plannable", "reads", "stage"],
        "memory_plan": ["CannotPlan", "Plan"],
        "own_update": ["plan_update"],
        "planner": ["LIBRARIES", "plan"],
        "rllib_model": ["plan_rllib"],
        "sb3_model": ["plan_model"],
        "tianshou_model": ["plan_tianshou"],
        "torchrl_model": ["plan_torchrl"],
    },
)
