"""The article that this chapter examines, and the sentences that the claims come from."""

from rlrepro.evidence.claims import Article

ARTICLE = Article(
    "Optimizing PPOPolicy in Tianshou: the memory of the logp_old computation",
    "Tianshou项目中的PPOPolicy性能优化:logp_old计算的内存问题分析",
    release="tianshou 1.0.0",
    date="2025-05-27",
    quotes={
        "LO1": "在Tianshou 1.0.0版本的实现中,这一计算是直接在整个批次上进行的",
        "LO2": "通过分块处理减少了单次计算的内存需求",
        "LO3": "用户无法通过调整batch_size参数来控制内存使用",
        "LO4": "计算结果与原始方法完全一致",
        "LO5": "略慢(因循环开销)",
        "LO6": "解决这个问题的思路是引入minibatch处理机制,将大批次数据分割成小块进行处理",
        "LO7": "merge_last:设为True以处理不能被整除的批次",
        "LO8": "任意规模数据",
    },
)
