"""The article that this chapter examines, and the sentences that the claims come from."""

from rlrepro.evidence.claims import Article

ARTICLE = Article(
    "Understanding the two batch parameters",
    "两个Batch参数的理解",
    release="tianshou before 1.1.0",
    quotes={
        "TB1": "例如PPO中计算return的方法中,我们需要通过并发的方式进行前向计算,这里如果一次性处理整个Batch中传来的尺寸,显卡可能会吃不消",
        "TB2": "而Trainer的batch_size,自然就是反向传播时分割Batch的Minibatch大小",
        "TB3": "并且在一些模型较大情况下,可能会出现不管如何调整Batch,显存依旧溢出的情况",
        "TB4": "实际上Tianshou在多个版本迭代中修复了大量BUG,直接clone tianshou的仓库并本地安装到虚拟环境即可修复",
        "TB5": "Policy定义的max_batchsize实际上是控制策略(Policy)在前向推断(生成动作)时采用的Minibatch大小",
        "TB6": "由于采用视觉网络作为PreprocessNet,Actor和Critic的网络参数量很大,8G的显存大概只能使用8个的Batch做反向传播",
    },
)
