"""The article that this chapter examines, and the sentences that the claims come from."""

from rlrepro.evidence.claims import Article

ARTICLE = Article(
    "SliceSampler on large buffers in TorchRL: analysis and optimization",
    "TorchRL中SliceSampler在大容量缓冲区的性能问题分析与优化",
    release="torchrl before 0.7.0",
    quotes={
        "SS1": "相同数据量下,将缓冲区容量扩大到6亿时,采样时间增加到0.0361秒",
        "SS2": "当存储3.46亿条数据,缓冲区容量为6亿时,采样时间更是飙升至1.6531秒",
        "SS3": "当存储500万条转换数据,缓冲区容量为600万时,采样时间仅需0.0048秒",
        "SS4": "当缓冲区容量增大时,采样速度会急剧下降",
        "SS5": "这种性能下降是非线性的,随着缓冲区容量的增加,采样时间呈指数级增长",
        "SS6": "改用done信号替代episode ID作为轨迹边界标识,利用布尔运算的高效性,使采样速度提升约2倍",
        "SS7": "通过启用缓存功能,在346M转换数据、600M容量的缓冲区场景下,采样速度提升了惊人的500倍",
        "SS8": "对SliceSampler的核心算法进行了重构,优化了大规模数据下的处理逻辑,进一步提升了2-3倍的性能",
        "SS9": "TorchRL团队通过引入缓存机制、优化轨迹标识处理和重构核心算法,成功解决了SliceSampler在大容量缓冲区下的性能瓶颈问题",
        "SS10": "使用整数型episode ID进行轨迹标识的效率低于使用布尔型done信号,因为后者可以利用更高效的位操作",
    },
)
