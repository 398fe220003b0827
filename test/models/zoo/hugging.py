"""Networks of the transformers package in tiny random configurations."""
import torch
from torch import nn

from .case import N, Net, tokens

NEEDS = ("transformers",)
TEXT = dict(vocab_size=11, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
            max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
IMAGE = dict(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, image_size=8, patch_size=4,
             hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
SINGLE = dict(dtype=torch.float32)  # their norms compute in single precision whatever the weights are
LLAMA = dict(vocab_size=11, hidden_size=8, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=12, max_position_embeddings=16, attention_dropout=0.0, use_cache=False)
SWIN = dict(image_size=32, patch_size=4, embed_dim=8, depths=[2, 2], num_heads=[2, 4], window_size=4, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0, drop_path_rate=0.0)


class Head(nn.Module):
    """A transformers model; its first output, or all tensors of it, as tuple."""

    def __init__(self, model, field=0, **options):
        super().__init__()
        self.model, self.field, self.options = model, field, options

    def forward(self, *inputs):
        names = ("attention_mask",) if len(inputs) > 1 else ()
        output = self.model(inputs[0], **dict(zip(names, inputs[1:])), **self.options, return_dict=False)
        return output if self.field is None else output[self.field]


def model(name, config, fields, field=0, attention="sdpa", **options):
    def build():
        import transformers

        made = getattr(transformers, config)(**fields)
        made._attn_implementation = attention
        return Head(getattr(transformers, name)(made), field, **options)
    return build


def text(masked=False):
    if not masked:
        return tokens(4, 11)
    return lambda: (torch.randint(2, 11, (N, 4)), torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]]))


def image():
    return torch.randn(N, 3, 8, 8, dtype=torch.float64),


def net(build, inputs, **more):
    return Net(build, inputs, needs=NEEDS, **more)


NETS = {
    "bert": net(model("BertModel", "BertConfig", TEXT), text(), quick=True),
    "bert, mask, pooler": net(model("BertModel", "BertConfig", TEXT, None), text(True)),
    "bert eager attention": net(model("BertModel", "BertConfig", TEXT, attention="eager"), text(True)),
    "bert classifier": net(model("BertForSequenceClassification", "BertConfig", TEXT), text(True)),
    "bert masked lm, tied": net(model("BertForMaskedLM", "BertConfig", TEXT), text()),
    "roberta": net(model("RobertaModel", "RobertaConfig", {**TEXT, "pad_token_id": 1}), text(True)),
    "distilbert": net(model("DistilBertForSequenceClassification", "DistilBertConfig", dict(
        vocab_size=11, dim=8, n_layers=2, n_heads=2, hidden_dim=12, max_position_embeddings=16, dropout=0.0,
        attention_dropout=0.0, seq_classif_dropout=0.0)), text(True)),
    "electra": net(model("ElectraModel", "ElectraConfig", {**TEXT, "embedding_size": 6}), text(True)),
    "gpt2": net(model("GPT2LMHeadModel", "GPT2Config", dict(
        vocab_size=11, n_embd=8, n_layer=2, n_head=2, n_positions=16, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        use_cache=False)), text()),
    "llama": net(model("LlamaForCausalLM", "LlamaConfig", LLAMA), text(), **SINGLE),
    "llama, tied, mask": net(model("LlamaForCausalLM", "LlamaConfig", {**LLAMA, "tie_word_embeddings": True}), text(True), **SINGLE),
    "qwen2": net(model("Qwen2ForCausalLM", "Qwen2Config", LLAMA), text(), **SINGLE),
    "t5 encoder": net(model("T5EncoderModel", "T5Config", dict(vocab_size=11, d_model=8, d_kv=4, d_ff=12, num_layers=2, num_heads=2,
                                                              dropout_rate=0.0)),
                      text(True), **SINGLE),
    "vit": net(model("ViTForImageClassification", "ViTConfig", IMAGE), image),
    "deit": net(model("DeiTModel", "DeiTConfig", IMAGE, None), image),
    "swin": net(model("SwinModel", "SwinConfig", SWIN), lambda: (torch.randn(N, 3, 32, 32, dtype=torch.float64),), quick=True),
    "swin v2": net(model("Swinv2Model", "Swinv2Config", SWIN, attention="eager"), lambda: (torch.randn(N, 3, 32, 32, dtype=torch.float64),)),
    "clip vision": net(model("CLIPVisionModel", "CLIPVisionConfig", dict(
        hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2, image_size=8, patch_size=4,
        projection_dim=6)), image),
    "wav2vec2": net(model("Wav2Vec2Model", "Wav2Vec2Config", dict(
        vocab_size=11, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, conv_dim=(4, 4),
        conv_stride=(2, 2), conv_kernel=(3, 3), num_feat_extract_layers=2, num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2, hidden_dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, feat_proj_dropout=0.0,
        layerdrop=0.0, apply_spec_augment=False)), lambda: (torch.randn(N, 64, dtype=torch.float64),)),
}
