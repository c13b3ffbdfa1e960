//! Keys that come later and keys that are refused for good, each with the reason. Their "off" values are accepted.

use super::{Dialect, Effect, Key, Kind, Section};

const PACKING: &str =
    "arrives with packing; the rows of a batch stand one after the other already, without padding";
const STREAMING: &str = "arrives with streaming data; datasets are read whole now";
const MIXING: &str = "arrives with dataset mixing; datasets are put one after another now";
const EVALUATION: &str = "arrives with evaluation and prediction";
const BEST: &str = "arrives with best-checkpoint selection";
const OPTIMIZERS: &str = "arrives with the other optimizers; AdamW works now";
const TOKENS: &str = "arrives with vocabulary changes";
const DISTRIBUTED: &str = "arrives with the distributed engine";
const ADAPTERS: &str = "arrives with the other adapter variants; LoRA and rsLoRA work now";
const LOSSES: &str = "arrives with the other training losses";
const TRACKERS: &str =
    "arrives with exports to other trackers; curves are on the run page and in its CSV";

const VISION: &str = "this trainer reads text only";
const VISION_HINT: &str =
    "leave the key out; models with pictures, video or sound cannot be trained here";
const QUANTIZED: &str = "weights are not quantized while training";
const QUANTIZED_HINT: &str = "use `pure_bf16: true` with LoRA to save memory";
const OTHER_ENGINE: &str = "that engine is not part of this trainer";
const LEAVE_OUT: &str = "leave the key out";
const OTHER_ATTENTION: &str = "attention is libtorch's own";
const SECRET: &str = "a secret does not belong in a configuration, which is stored and shown";
const SECRET_HINT: &str =
    "leave the key out; set the token in the environment of the program that needs it";
const COMPILE: &str = "there is no Python code to compile";

pub(super) const KEYS: &[Key] = &[
    // Later.
    later(Section::Data, "packing", PACKING),
    later(Section::Data, "neat_packing", PACKING),
    later(Section::Data, "batching_strategy", PACKING)
        .off(&["normal"])
        .dialect(Dialect::V1),
    later(Section::Data, "streaming", STREAMING),
    later(Section::Data, "dataset_shards", STREAMING),
    later(Section::Data, "mix_strategy", MIXING).off(&["concat"]),
    later(Section::Data, "interleave_probs", MIXING),
    later(
        Section::Data,
        "tokenized_path",
        "arrives with the cache of tokenized data",
    ),
    later(
        Section::Data,
        "group_by_length",
        "arrives with length grouping; rows keep their order now",
    ),
    later(
        Section::Data,
        "custom_chat_template",
        "arrives with templates written by the user; choose a `template`",
    )
    .dialect(Dialect::V1),
    later(Section::Data, "split_special_tokens", TOKENS),
    later(Section::Model, "resize_vocab", TOKENS),
    later(Section::Model, "add_tokens", TOKENS),
    later(Section::Model, "add_special_tokens", TOKENS),
    later(Section::Model, "new_special_tokens_config", TOKENS),
    later(Section::Model, "init_special_tokens", TOKENS).off(&["noise_init"]),
    later(
        Section::Model,
        "rope_scaling",
        "arrives with longer contexts; the model's own scaling is used now",
    ),
    later(
        Section::Model,
        "train_from_scratch",
        "arrives with training from random weights",
    ),
    later(Section::Model, "init_config", DISTRIBUTED)
        .off(&["init_on_default"])
        .dialect(Dialect::V1),
    later(
        Section::Model,
        "moe_aux_loss_coef",
        "arrives with mixture-of-experts models",
    ),
    later(Section::Model, "fp8", "arrives with GPU training"),
    later(
        Section::Model,
        "fp8_enable_fsdp_float8_all_gather",
        "arrives with GPU training",
    ),
    later(Section::Method, "use_dora", ADAPTERS),
    later(Section::Method, "pissa_init", ADAPTERS),
    later(Section::Method, "pissa_convert", ADAPTERS),
    later(Section::Method, "use_llama_pro", ADAPTERS),
    later(
        Section::Training,
        "neftune_noise_alpha",
        "arrives with noisy embeddings",
    )
    .aliases(&["neftune_alpha"]),
    later(Section::Training, "label_smoothing_factor", LOSSES),
    later(Section::Training, "use_dft_loss", LOSSES),
    later(Section::Training, "use_asft_loss", LOSSES),
    later(Section::Training, "use_eaft_loss", LOSSES),
    later(
        Section::Training,
        "lr_scheduler_kwargs",
        "arrives with the other schedules",
    )
    .off(&["{}"]),
    later(Section::Training, "optim", OPTIMIZERS).off(&[
        "adamw_torch",
        "adamw_torch_fused",
        "adamw_hf",
    ]),
    later(Section::Training, "optim_args", OPTIMIZERS),
    later(Section::Training, "optim_config", OPTIMIZERS).dialect(Dialect::V1),
    later(Section::Training, "optim_target_modules", OPTIMIZERS),
    later(Section::Training, "adafactor", OPTIMIZERS),
    later(Section::Training, "use_adam_mini", OPTIMIZERS),
    later(Section::Training, "use_muon", OPTIMIZERS),
    later(Section::Training, "use_galore", OPTIMIZERS),
    later(Section::Training, "use_apollo", OPTIMIZERS),
    later(Section::Training, "use_badam", OPTIMIZERS),
    later(
        Section::Training,
        "auto_find_batch_size",
        "arrives with the memory estimate",
    ),
    later(
        Section::Training,
        "dataloader_drop_last",
        "arrives with the other batch rules; the last rows are trained on too",
    ),
    later(Section::Evaluation, "compute_accuracy", EVALUATION),
    later(Section::Evaluation, "predict_with_generate", EVALUATION),
    later(Section::Evaluation, "do_predict", EVALUATION),
    later(Section::Evaluation, "eval_delay", EVALUATION),
    later(Section::Evaluation, "early_stopping_steps", BEST),
    later(Section::Evaluation, "load_best_model_at_end", BEST),
    later(
        Section::Checkpoint,
        "save_epochs",
        "arrives with checkpoints by epoch shares; use `save_strategy: epoch` or `save_steps`",
    )
    .dialect(Dialect::V1),
    later(
        Section::Checkpoint,
        "save_ckpt_as_hf",
        "arrives with exports of checkpoints",
    )
    .dialect(Dialect::V1),
    later(Section::Checkpoint, "push_to_hub", "arrives with exports"),
    later(Section::Logging, "report_to", TRACKERS).off(&["[none]"]),
    later(Section::Logging, "use_swanlab", TRACKERS),
    later(Section::Distributed, "deepspeed", DISTRIBUTED),
    later(Section::Distributed, "fsdp", DISTRIBUTED),
    later(Section::Distributed, "fsdp_config", DISTRIBUTED).off(&["{}"]),
    // Refused.
    refused(
        Section::Model,
        "quantization_bit",
        QUANTIZED,
        QUANTIZED_HINT,
    ),
    refused(Section::Model, "quant_config", QUANTIZED, QUANTIZED_HINT).dialect(Dialect::V1),
    refused(
        Section::Model,
        "quantization_device_map",
        QUANTIZED,
        QUANTIZED_HINT,
    ),
    refused(
        Section::Model,
        "export_quantization_bit",
        QUANTIZED,
        QUANTIZED_HINT,
    ),
    refused(
        Section::Model,
        "export_quantization_dataset",
        QUANTIZED,
        QUANTIZED_HINT,
    )
    .off(&["data/c4_demo.jsonl"]),
    refused(
        Section::Model,
        "model_class",
        "the stage decides the model's head",
        "leave the key out; reward models are `stage: rm`",
    )
    .off(&["llm"])
    .dialect(Dialect::V1),
    refused(Section::Model, "shift_attn", OTHER_ATTENTION, LEAVE_OUT),
    refused(Section::Model, "mixture_of_depths", OTHER_ENGINE, LEAVE_OUT),
    refused(Section::Model, "use_unsloth", OTHER_ENGINE, LEAVE_OUT),
    refused(Section::Model, "use_kt", OTHER_ENGINE, LEAVE_OUT),
    refused(Section::Model, "hf_hub_token", SECRET, SECRET_HINT),
    refused(Section::Model, "ms_hub_token", SECRET, SECRET_HINT),
    refused(Section::Model, "om_hub_token", SECRET, SECRET_HINT),
    refused(Section::Model, "hub_token", SECRET, SECRET_HINT),
    refused(Section::Logging, "swanlab_api_key", SECRET, SECRET_HINT),
    refused(
        Section::Logging,
        "swanlab_lark_webhook_url",
        SECRET,
        SECRET_HINT,
    ),
    refused(Section::Logging, "swanlab_lark_secret", SECRET, SECRET_HINT),
    refused(Section::Model, "freeze_vision_tower", VISION, VISION_HINT).off(&["true"]),
    refused(
        Section::Model,
        "freeze_multi_modal_projector",
        VISION,
        VISION_HINT,
    )
    .off(&["true"]),
    refused(Section::Model, "freeze_language_model", VISION, VISION_HINT),
    refused(Section::Data, "image_max_pixels", VISION, VISION_HINT).off(&["589824", "768*768"]),
    refused(Section::Data, "image_min_pixels", VISION, VISION_HINT).off(&["1024", "32*32"]),
    refused(Section::Data, "image_do_pan_and_scan", VISION, VISION_HINT),
    refused(Section::Data, "crop_to_patches", VISION, VISION_HINT),
    refused(Section::Data, "video_max_pixels", VISION, VISION_HINT).off(&["65536", "256*256"]),
    refused(Section::Data, "video_min_pixels", VISION, VISION_HINT).off(&["256", "16*16"]),
    refused(Section::Data, "video_fps", VISION, VISION_HINT).off(&["2", "2.0"]),
    refused(Section::Data, "video_maxlen", VISION, VISION_HINT).off(&["128"]),
    refused(Section::Data, "use_audio_in_video", VISION, VISION_HINT),
    refused(Section::Data, "audio_sampling_rate", VISION, VISION_HINT).off(&["16000"]),
    refused(
        Section::Training,
        "lr_scheduler_config",
        "no schedule is known by that key",
        "use `lr_scheduler_type`, `warmup_ratio` and `warmup_steps`",
    )
    .dialect(Dialect::V1),
    refused(Section::Training, "torch_compile", COMPILE, LEAVE_OUT),
    refused(
        Section::Training,
        "torch_compile_backend",
        COMPILE,
        LEAVE_OUT,
    ),
    refused(Section::Training, "torch_compile_mode", COMPILE, LEAVE_OUT),
    refused(
        Section::Training,
        "fp16_opt_level",
        "Apex is not part of this trainer",
        LEAVE_OUT,
    )
    .off(&["O1"]),
    refused(
        Section::Checkpoint,
        "ignore_data_skip",
        "a resumed run goes on at the very row where it stopped",
        "leave the key out, or start a new run from the saved weights",
    ),
    refused(Section::Distributed, "use_mca", OTHER_ENGINE, LEAVE_OUT),
    refused(
        Section::Distributed,
        "use_hyper_parallel",
        OTHER_ENGINE,
        "use `cp_size` for long sequences",
    ),
    refused(
        Section::Distributed,
        "tpu_num_cores",
        OTHER_ENGINE,
        LEAVE_OUT,
    ),
    refused(
        Section::Distributed,
        "use_mps_device",
        OTHER_ENGINE,
        LEAVE_OUT,
    ),
];

const fn later(section: Section, name: &'static str, reason: &'static str) -> Key {
    Key::new(section, name, Kind::Any, reason)
        .effect(Effect::Later(reason))
        .not_stored()
}

const fn refused(
    section: Section,
    name: &'static str,
    reason: &'static str,
    hint: &'static str,
) -> Key {
    Key::new(section, name, Kind::Any, reason)
        .effect(Effect::Refused(reason, hint))
        .not_stored()
}
