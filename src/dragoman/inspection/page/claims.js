// Claims that the lab tests, and their verdicts: written by tools/lab_claims.py.

export const CLAIMS = {
  "all-masked-rows": {
    title: "A query whose keys are all masked",
    claim: "All keys of a padding query may be masked: its output is not used, so it does no harm.",
    verdict: "holds only if the softmax of such a row is not NaN",
  },
  "attention-as-explanation": {
    title: "Attention weights as explanations",
    claim: "The source token with the largest weight of encoder-decoder attention is the one that a " +
      "prediction depends on most.",
    verdict: "holds only if the weights are those of layer 2 or all layers",
  },
  "dot-product-variance": {
    title: "Why scores are divided by √d_k",
    claim: "If the components of q and k are independent with mean 0 and variance 1, q · k has " +
      "variance d_k; for large d_k the softmax then has extremely small gradients, and the factor" +
      " 1 / √d_k counteracts this.",
    verdict: "holds only for the median query; the mean gradient falls less",
  },
  "encoder-padding": {
    title: "A batch without a padding mask",
    claim: "Padding has an embedding that the model can learn to ignore, so a batch needs no padding " +
      "mask.",
    verdict: "holds only if each batch is as wide as those of training",
  },
  "feed-forward-is-convolution": {
    title: "The feed-forward sub-layer is two convolutions",
    claim: "The feed-forward sub-layer is applied to each position separately and identically; it is " +
      "two convolutions with kernel size 1.",
    verdict: "holds",
  },
  "gradient-by-layer": {
    title: "Gradients by layer, post-norm and pre-norm",
    claim: "Before training, the gradients of a post-norm Transformer are larger near its output than " +
      "near its input, and those of a pre-norm one are not.",
    verdict: "holds",
  },
  "heads-that-matter": {
    title: "How many heads matter",
    claim: "Most heads can be removed one at a time, and a fifth of them together, without training " +
      "and with little loss.",
    verdict: "does not hold",
  },
  "label-smoothing-in-training": {
    title: "Label smoothing in training",
    claim: "Label smoothing hurts perplexity, and improves accuracy and BLEU.",
    verdict: "is not decided",
  },
  "length-penalties": {
    title: "A length penalty of 0.6",
    claim: "A length penalty of 0.6 means the same in every toolkit.",
    verdict: "does not hold",
  },
  "lengths-beyond-training": {
    title: "Texts longer than those of training",
    claim: "With sinusoids a model keeps its accuracy on texts that are longer than those of training.",
    verdict: "does not hold",
  },
  "neighbours-of-embeddings": {
    title: "Neighbours of trained embeddings",
    claim: "Words that are used in the same way get embeddings that are near each other.",
    verdict: "holds",
  },
  "norm-placement": {
    title: "Post-norm and pre-norm are two models",
    claim: "Whether the normalisation is before or after the sub-layer is a matter of notation; the " +
      "weights of one model can be used in the other.",
    verdict: "does not hold",
  },
  "parameters-by-hand": {
    title: "Parameters computed by hand and in Table 3",
    claim: "Base has 65 million parameters and big 213 million, with a vocabulary of about 37,000 " +
      "tokens.",
    verdict: "does not hold",
  },
  "position-dot-products": {
    title: "Dot products of positions and their distance",
    claim: "The dot product of two positions is symmetric and decays with their distance.",
    verdict: "holds only if “decays” means the trend, up to distance 700 (d_model = 64), 1,000 (d_model " +
      "= 128), 1,800 (d_model = 512)",
  },
  "positions-are-linear": {
    title: "A shift of positions is a linear map",
    claim: "For any fixed offset k, PE(pos + k) is a linear function of PE(pos).",
    verdict: "holds",
  },
  "residuals-off": {
    title: "Training without residual connections",
    claim: "Without residual connections a Transformer does not train.",
    verdict: "holds only if the model has 4 layers a side and is trained for 150 updates at this " +
      "learning rate",
  },
  "shapes-of-every-step": {
    title: "The widths of every module's output",
    claim: "All sub-layers and the embedding layers produce outputs of dimension d_model.",
    verdict: "holds",
  },
  "tied-embeddings": {
    title: "What tied embeddings save",
    claim: "Sharing one matrix among both embeddings and the output projection saves two matrices of V" +
      " · d_model.",
    verdict: "holds",
  },
  "training-equals-decoding": {
    title: "Training computes what decoding computes",
    claim: "With the causal mask, the prediction for each token is the same whether all tokens are " +
      "given at once or only those before it.",
    verdict: "holds",
  },
  "warmup-schedule": {
    title: "The learning rate's schedule",
    claim: "The learning rate increases linearly for the first warmup_steps updates, and decreases " +
      "thereafter as the inverse square root of the update's number.",
    verdict: "holds",
  },
  "who-sees-whom": {
    title: "The encoder sees all positions",
    claim: "In the encoder, each position attends to the positions up to and including its own.",
    verdict: "does not hold",
  },
  "wider-beam": {
    title: "A wider beam and the probability of its translation",
    claim: "A wider beam never finds a less probable translation.",
    verdict: "does not hold",
  },
};
