"""The article that this chapter examines, and the sentences behind the claims."""

from rlrepro.evidence.claims import Article

ARTICLE = Article(
    "CUDA out of memory from large action spaces in Pearl: analysis and solution",
    "Pearl项目中大动作空间导致CUDA内存不足问题的分析与解决",
    release="Pearl, which has no releases",
    date="2025-06-28",
    quotes={
        "LA1": "原实现使用one-hot编码表示动作,当动作空间达到数万维度时,每个动作都需要存储庞大的稀疏矩阵,这对GPU内存造成了极大压力",
        "LA2": "因为整数索引仅需4字节存储,而同等规模的one-hot向量可能需要数千倍的存储空间",
        "LA3": "建议采用整数编码替代one-hot编码",
        "LA4": "LSTMHistorySummarizationModule的使用会保存完整的历史记录,当环境变量较多时,历史长度随之增加,进一步加剧了内存消耗",
        "LA5": "在SAC算法中错误地使用了BootstrapReplayBuffer,这种缓冲区设计会保存多个数据副本,不适合off-policy算法",
        "LA6": "考虑最新版本中CPU存储缓冲区、GPU处理批次的优化方案",
        "LA7": "考虑使用动作嵌入技术进一步压缩表示空间",
        "LA8": "系统会出现CUDA内存持续增长直至耗尽的情况",
    },
)
