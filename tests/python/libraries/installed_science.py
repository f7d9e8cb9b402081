"""Programs that call libraries of probability, differential equations, geometry and tables."""

import torch
from torch import nn

from .own import draw
from .own_models import trained
from .programs import program


@program("a Gaussian process: two steps of its marginal likelihood, predictions", "gpytorch", terms=40000)
def gpytorch_regression(device):
    import gpytorch

    class Process(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x = torch.linspace(0, 1, 20, dtype=torch.float64).to(device)
    y = (6 * x).sin()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double().to(device)
    model = Process(x, y, likelihood).double().to(device)
    score = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    values = trained(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda: -score(model(x), y), 2)
    model.eval(), likelihood.eval()
    with torch.no_grad():
        found = likelihood(model(x[:5] + 0.01))
        return [*values, found.mean, found.variance]


@program("a model in plates: its log density, two steps towards the posterior's mode", "pyro-ppl", terms=8000)
def pyro_mode(device):
    import pyro
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoDelta, init_to_value

    data = draw(30).to(device)
    one = torch.ones((), device=device)

    def model():
        where = pyro.sample("where", dist.Normal(0 * one, 10 * one))
        width = pyro.sample("width", dist.LogNormal(0 * one, one))
        with pyro.plate("rows", len(data)):
            pyro.sample("x", dist.StudentT(4 * one, where, width), obs=data)

    pyro.clear_param_store()
    guide = AutoDelta(model, init_loc_fn=init_to_value(values={"where": 0.5 * one, "width": 2 * one}))
    steps = SVI(model, guide, pyro.optim.SGD({"lr": 1e-3}), Trace_ELBO())
    losses = [steps.step() for _ in range(2)]
    density = pyro.poutine.trace(pyro.poutine.condition(model, guide())).get_trace().log_prob_sum()
    return [density, *guide().values(), torch.tensor(losses, device=device)]


@program("a Gaussian process for optimization, analytic expected improvement and its gradient", "botorch", terms=40000)
def botorch_improvement(device):
    from botorch.acquisition import LogExpectedImprovement
    from botorch.models import SingleTaskGP

    x = torch.rand(8, 2, dtype=torch.float64).to(device)
    y = (x.sum(1, keepdim=True) * 3).sin()
    model = SingleTaskGP(x, (y - y.mean()) / y.std())
    value = LogExpectedImprovement(model, best_f=0.3)
    candidate = torch.full((3, 1, 2), 0.4, dtype=torch.float64).to(device).requires_grad_()
    found = value(candidate)
    found.sum().backward()
    return [found, candidate.grad, model.posterior(candidate.detach()[:, 0]).variance]


@program("an ordinary differential equation of a network, with gradients by the adjoint", "torchdiffeq", terms=40000)
def torchdiffeq_adjoint(device):
    from torchdiffeq import odeint, odeint_adjoint

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))

        def forward(self, t, y):
            return self.net(y) * (1 + t)

    field = Field().double().to(device)
    start = draw(4, 3).double().to(device)
    times = torch.linspace(0, 1, 4, dtype=torch.float64).to(device)
    ends = odeint_adjoint(field, start, times, method="rk4", options={"step_size": 0.05})
    ends[-1].square().sum().backward()
    adaptive = odeint(field, start, times, rtol=1e-10, atol=1e-10)
    return [ends, field.net[0].weight.grad, adaptive]


@program("splines through irregular series, a controlled differential equation", "torchcde", terms=40000)
def torchcde_series(device):
    import torchcde

    x = draw(3, 7, 2).double().to(device)
    coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(x)
    path = torchcde.CubicSpline(coefficients)
    linear = nn.Linear(4, 8).double().to(device)
    start = draw(3, 4).double().to(device)
    ends = torchcde.cdeint(path, lambda t, z: linear(z).tanh().view(3, 4, 2), start, path.interval, method="rk4",
                           options={"step_size": 0.25}, adjoint=False)  # fmt: skip
    ends.square().sum().backward()
    return [coefficients, path.derivative(path.interval[0]), ends, linear.weight.grad]


@program("a flow of splines: log density of samples, a training step", "zuko", terms=40000)
def zuko_flow(device):
    import zuko

    flow = zuko.flows.NSF(features=3, transforms=2, hidden_features=(16, 16)).to(device)
    x = draw(20, 3).to(device)
    return [*trained(flow, torch.optim.SGD(flow.parameters(), lr=0.01), lambda: -flow().log_prob(x).mean(), 2),
            flow().log_prob(x)]  # fmt: skip


@program("a real NVP flow: forward KL and its gradients", "normflows", terms=40000)
def normflows_real_nvp(device):
    import normflows

    flows = []
    for _ in range(2):
        net = normflows.nets.MLP([1, 8, 8, 2], init_zeros=False)
        flows += [normflows.flows.AffineCouplingBlock(net), normflows.flows.Permute(2, mode="swap")]
    model = normflows.NormalizingFlow(normflows.distributions.base.DiagGaussian(2), flows).to(device)
    x = draw(16, 2).to(device)
    return [*trained(model, torch.optim.SGD(model.parameters(), lr=0.01), lambda: model.forward_kld(x), 2),
            model.log_prob(x)]  # fmt: skip


@program("spherical harmonics, a tensor product of representations and its gradients", "e3nn", terms=40000)
def e3nn_product(device):
    from e3nn import o3

    points = draw(10, 3).to(device)
    harmonics = o3.spherical_harmonics("1x0e + 1x1o + 1x2e", points, normalize=True)
    product = o3.FullyConnectedTensorProduct("1x0e + 1x1o + 1x2e", "1x1o", "2x0e + 2x1o + 1x2e").to(device)
    result = product(harmonics, points)
    result.square().sum().backward()
    return [harmonics, result, product.weight.grad]


@program("attentive tables: sparse masks, a loss and its gradients", "pytorch-tabnet", terms=40000)
def tabnet_tables(device):
    from pytorch_tabnet.tab_network import TabNet

    groups = torch.eye(6).to(device)
    net = TabNet(6, 3, n_d=4, n_a=4, n_steps=2, group_attention_matrix=groups, virtual_batch_size=8).to(device)
    x, labels = draw(16, 6).to(device), torch.randint(0, 3, (16,)).to(device)
    scores, sparsity = net(x)
    (nn.functional.cross_entropy(scores, labels) + 0.01 * sparsity).backward()
    return [scores, sparsity, net.tabnet.final_mapping.weight.grad]


@program("dictionaries of tensors: to a device, stacked, indexed, through a module", "tensordict", terms=8000)
def tensordict_module(device):
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule

    one = TensorDict({"x": draw(4, 3), "inner": {"y": torch.arange(4)}}, batch_size=[4]).to(device)
    both = torch.stack([one, one + 1])
    module = TensorDictModule(nn.Linear(3, 2).to(device), in_keys=["x"], out_keys=["z"])
    done = module(both[:, [0, 2]])
    assert done.device.type == device
    return [done["z"], both["inner", "y"].sum(0), both.reshape(-1)[both.reshape(-1)["x"][:, 0] > 0]["x"]]


@program("advantages, a clipped policy loss and its gradients", "torchrl", terms=40000)
def torchrl_policy(device):
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential
    from torchrl.modules import NormalParamExtractor, ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

    net = TensorDictModule(nn.Sequential(nn.Linear(4, 4), NormalParamExtractor()), ["observation"], ["loc", "scale"])
    actor = ProbabilisticActor(TensorDictSequential(net), in_keys=["loc", "scale"], distribution_class=TanhNormal,
                               return_log_prob=True).to(device)  # fmt: skip
    critic = ValueOperator(nn.Linear(4, 1), in_keys=["observation"]).to(device)
    flags = torch.zeros(2, 6, 1, dtype=torch.bool)
    data = TensorDict({"observation": draw(2, 6, 4), "action": draw(2, 6, 2).tanh() * 0.9,
                       "action_log_prob": draw(2, 6) - 2,
                       "next": {"observation": draw(2, 6, 4), "reward": draw(2, 6, 1), "done": flags,
                                "terminated": flags}}, batch_size=[2, 6]).to(device)  # fmt: skip
    GAE(gamma=0.9, lmbda=0.8, value_network=critic)(data)
    losses = ClipPPOLoss(actor, critic, entropy_bonus=False)(data)
    (losses["loss_objective"] + losses["loss_critic"]).backward()
    return [data["advantage"], losses["loss_objective"], losses["loss_critic"], critic.module.weight.grad]


@program("PPO: actions' log densities, a loss, gradients; a short run of the algorithm", "stable-baselines3",
         terms=40000)  # fmt: skip
def stable_baselines_ppo(device):
    import gymnasium
    import numpy as np
    from stable_baselines3 import PPO
    from stable_baselines3.common.policies import ActorCriticPolicy

    space, actions = gymnasium.spaces.Box(-1, 1, (4,), np.float32), gymnasium.spaces.Discrete(3)

    class Walk(gymnasium.Env):
        observation_space, action_space = space, actions

        def reset(self, *, seed=None, options=None):
            self.steps = 0
            return np.zeros(4, np.float32), {}

        def step(self, action):
            self.steps += 1
            return np.full(4, action / 3, np.float32), float(action), self.steps == 8, False, {}

    policy = ActorCriticPolicy(space, actions, lambda _: 1e-3).to(device)
    values, densities, entropy = policy.evaluate_actions(draw(8, 4).to(device), torch.arange(8).to(device) % 3)
    (values.square().mean() - densities.mean() - 0.01 * entropy.mean()).backward()
    learner = PPO("MlpPolicy", Walk(), n_steps=32, batch_size=16, n_epochs=1, device=device, seed=0)
    assert learner.learn(64).policy.device.type == device and learner.num_timesteps == 64
    return [values, densities, entropy, policy.value_net.weight.grad]
