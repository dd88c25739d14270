"""ChunkedPPOTorchLearner: RLlib's PPO learner with ChunkedGAE in its pipeline of connectors."""

from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.learner import GeneralAdvantageEstimation
from ray.rllib.core.rl_module.apis import ValueFunctionAPI

from .connector import ChunkedGAE


class ChunkedValuePass:
    """A mixin for a learner whose pipeline computes advantages: `class MyLearner(ChunkedValuePass, YourLearner)`.

    When the learner is built, ChunkedGAE takes the place of GeneralAdvantageEstimation; its chunks have the size of the
    configured minibatches. Raises TypeError if a module that is to be trained has no value function, and ValueError if
    the pipeline has no connector to replace.
    """

    def build(self) -> None:
        super().build()
        for module_id, module in self.module.foreach_module(lambda *pair: pair):
            if self.should_module_be_updated(module_id) and not isinstance(module, ValueFunctionAPI):
                raise TypeError(
                    f"module {module_id!r} is to be trained, so it needs values: expected an RLModule that inherits "
                    f"ValueFunctionAPI and defines compute_values(batch, embeddings=None), found "
                    f"{type(module).__qualname__}. RLlib skips such a module, and then fails for lack of advantages. "
                    "Inherit and define it, or leave the module out of policies_to_train"
                )
        connectors = self._learner_connector.connectors
        for index, connector in enumerate(connectors):
            if type(connector) is GeneralAdvantageEstimation:
                spaces = connector.input_observation_space, connector.input_action_space
                size = self.config.minibatch_size
                connectors[index] = ChunkedGAE(*spaces, gamma=connector.gamma, lambda_=connector.lambda_, size=size)
        if not any(isinstance(connector, ChunkedGAE) for connector in connectors):
            names = ", ".join(type(connector).__name__ for connector in connectors)
            raise ValueError(
                f"expected GeneralAdvantageEstimation in the learner's pipeline, found {names or 'no connectors'}. "
                "Add ChunkedGAE, or derive your own connector from it"
            )


class ChunkedPPOTorchLearner(ChunkedValuePass, PPOTorchLearner):
    """PPO's learner for PyTorch, for `config.learners(learner_class=ChunkedPPOTorchLearner)`."""
