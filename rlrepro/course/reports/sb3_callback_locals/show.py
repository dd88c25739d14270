import gc
import sys
import weakref

from stable_baselines3 import PPO


def train():
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, n_epochs=1, device="cpu")
    model.learn(64)
    return weakref.ref(model.rollout_buffer)


train()  # its imports leave cycles of their own
gc.collect()
gc.disable()  # it runs after enough objects were created, regardless of the size of those that it would free
buffers = [train() for _ in range(5)]
alive = sum(buffer() is not None for buffer in buffers)
print(f"of 5 deleted models, {alive} still hold their rollout buffers; {gc.collect():,} objects were in cycles")
sys.exit(alive > 0)
