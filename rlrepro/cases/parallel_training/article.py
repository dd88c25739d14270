"""The article that this chapter examines, and the sentences behind the claims."""

from rlrepro.evidence.claims import Article

ARTICLE = Article(
    "Optimizing multi-threaded PPO training in Stable-Baselines3",
    "Stable-Baselines3中多线程PPO训练的性能优化实践",
    release="Stable-Baselines3, no release named",
    date="2025-05-22",
    quotes={
        "PT1": "随着进程数增加,梯度计算步骤耗时显著增加",
        "PT2": "PyTorch的autograd引擎采用全局锁机制",
        "PT3": "这种方法简单有效,能完全避免autograd引擎的竞争问题",
        "PT4": "根据CPU核心数合理设置进程数",
        "PT5": "使用Ray等分布式计算框架",
        "PT6": "训练速度基本保持线性增长",
        "PT7": "大规模并行(>100个任务):必须使用专业分布式方案",
    },
)
