"""Some families of the timm package, at small sizes."""
import torch

from .case import N, Net, without_dropout

NEEDS = ("timm",)


def model(name, size=32, quick=False, slow=False, **options):
    def build():
        import timm

        return without_dropout(timm.create_model(name, num_classes=3, **options))
    return Net(build, lambda: (torch.randn(N, 3, size, size, dtype=torch.float64),), needs=NEEDS, quick=quick, slow=slow, rate=1e-4)


# Networks of stride 32 that normalise batches at their end get images of 64: of 2 numbers, one per image, the variance can be
# next to nothing, and evaluation divides by it.
TINY = dict(img_size=32, patch_size=16, embed_dim=24, depth=2, num_heads=3)
NETS = {
    "resnet10t": model("resnet10t"),
    "resnext": model("resnext26ts"),
    "convnext": model("convnext_atto", quick=True),
    "efficientnet": model("efficientnet_b0"),
    "mobilenetv3": model("mobilenetv3_small_050"),
    "mixer": model("mixer_s16_224", img_size=32),
    "vit": model("vit_tiny_patch16_224", **TINY),
    "deit": model("deit_tiny_patch16_224", **TINY),
    "beit": model("beit_base_patch16_224", **TINY),
    "regnet": model("regnetx_002"),
    "regnety": model("regnety_002"),
    "swin": model("swin_tiny_patch4_window7_224", img_size=32, window_size=4, drop_path_rate=0.0, embed_dim=12, depths=(2, 2), num_heads=(2, 2)),
    "maxvit": model("maxvit_rmlp_pico_rw_256", slow=True, size=64, img_size=64),
    "poolformer": model("poolformer_s12"),
    "ghostnet": model("ghostnet_050", size=64),
    "cait": model("cait_xxs24_224", slow=True, img_size=32, patch_size=16, embed_dim=24, depth=2, num_heads=3),
    "densenet": model("densenet121", slow=True, size=64),
    "mobilevit": model("mobilevit_xxs"),
    "edgenext": model("edgenext_xx_small"),
    "rexnet": model("rexnet_100", slow=True, size=64),
    "nfnet": model("nf_regnet_b0"),
    "pvt": model("pvt_v2_b0", slow=True),
    "xcit": model("xcit_nano_12_p16_224", img_size=32),
    "repvgg": model("repvgg_a0"),
    "hrnet": model("hrnet_w18_small"),
    "dla": model("dla46_c"),
    "vovnet": model("ese_vovnet19b_dw"),
}
