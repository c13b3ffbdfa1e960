//! Keys that are accepted and change nothing here, each with the reason.

use super::{Dialect, Effect, Key, Kind, Section};

const WHOLE_FILE: &str = "rows are read and tokenized in one pass on every core";
const LOADER: &str = "batches are made beside the training step, without loader processes";
const HUB: &str = "models and data are read from local folders";
const LOCAL_ONLY: &str = "rank and process group come from the launcher";
const NO_MODEL_CODE: &str = "no code of a model folder is ever run";
const GENERATION: &str = "training writes no text";
const EXPORT: &str = "it belongs to exporting";
const CHAT: &str = "it belongs to chatting";
const DEVICE: &str = "this version trains on the CPU";
const FUSED: &str = "libtorch's fused kernels are always on";
const LOGGING: &str = "curves hold every step, logs go to the run directory";
const SAFETENSORS: &str = "weights are always written as safetensors";
const OFF_FEATURE: &str = "it tunes something that is off";
const PREFERENCE: &str = "it belongs to stages that come later";

pub(super) const KEYS: &[Key] = &[
    // Model.
    inert(Section::Model, "trust_remote_code", NO_MODEL_CODE),
    inert(Section::Model, "cache_dir", HUB),
    inert(Section::Model, "model_revision", HUB),
    inert(
        Section::Model,
        "adapter_folder",
        "adapter paths are given whole",
    ),
    inert(
        Section::Model,
        "use_fast_tokenizer",
        "the fast tokenizer is the only one",
    ),
    inert(
        Section::Model,
        "low_cpu_mem_usage",
        "weights are read once, straight into the model",
    ),
    inert(Section::Model, "offload_folder", OFF_FEATURE),
    inert(Section::Model, "use_kv_cache", GENERATION),
    inert(Section::Model, "use_cache", GENERATION),
    inert(Section::Model, "use_v1_kernels", FUSED),
    inert(Section::Model, "kernel_config", FUSED).dialect(Dialect::V1),
    inert(
        Section::Model,
        "print_param_status",
        "the run page shows how many parameters are trained",
    ),
    inert(
        Section::Model,
        "use_reentrant_gc",
        "activation checkpointing has one form here",
    ),
    inert(
        Section::Model,
        "gradient_checkpointing_kwargs",
        "activation checkpointing has one form here",
    ),
    inert(
        Section::Model,
        "upcast_layernorm",
        "norms are computed in float32 already",
    ),
    inert(
        Section::Model,
        "upcast_lmhead_output",
        "the loss is computed in float32 already",
    ),
    inert(Section::Model, "enable_liger_kernel", FUSED),
    inert(Section::Model, "use_liger_kernel", FUSED),
    inert(Section::Model, "liger_kernel_config", FUSED),
    inert(Section::Model, "use_unsloth_gc", FUSED),
    inert(Section::Model, "infer_backend", CHAT),
    inert(Section::Model, "infer_dtype", CHAT),
    inert(Section::Model, "vllm_maxlen", CHAT),
    inert(Section::Model, "vllm_gpu_util", CHAT),
    inert(Section::Model, "vllm_enforce_eager", CHAT),
    inert(Section::Model, "vllm_max_lora_rank", CHAT),
    inert(Section::Model, "vllm_config", CHAT),
    inert(Section::Model, "export_dir", EXPORT),
    inert(Section::Model, "export_size", EXPORT),
    inert(Section::Model, "export_device", EXPORT),
    inert(Section::Model, "export_legacy_format", EXPORT),
    inert(Section::Model, "export_hub_model_id", EXPORT),
    inert(Section::Model, "quantization_method", OFF_FEATURE),
    inert(Section::Model, "quantization_type", OFF_FEATURE),
    inert(Section::Model, "double_quantization", OFF_FEATURE),
    inert(Section::Model, "fp8_backend", OFF_FEATURE),
    // Data.
    inert(
        Section::Data,
        "overwrite_cache",
        "tokenized rows are not cached between runs",
    ),
    inert(Section::Data, "preprocessing_num_workers", WHOLE_FILE),
    inert(Section::Data, "preprocessing_batch_size", WHOLE_FILE),
    inert(Section::Data, "data_shared_file_system", WHOLE_FILE),
    inert(Section::Data, "dataloader_num_workers", LOADER),
    inert(Section::Data, "dataloader_prefetch_factor", LOADER),
    inert(Section::Data, "dataloader_pin_memory", LOADER),
    inert(Section::Data, "dataloader_persistent_workers", LOADER),
    inert(Section::Data, "batching_workers", LOADER).dialect(Dialect::V1),
    inert(
        Section::Data,
        "remove_unused_columns",
        "only the columns that dataset_info.json names are read",
    ),
    inert(Section::Data, "buffer_size", OFF_FEATURE),
    inert(Section::Data, "media_dir", "rows hold text only"),
    inert(
        Section::Data,
        "ignore_pad_token_for_loss",
        "padding never counts in the loss",
    ),
    inert(Section::Data, "eval_num_beams", GENERATION),
    // Training.
    inert(Section::Training, "do_train", "a run always trains"),
    inert(
        Section::Training,
        "do_eval",
        "evaluation follows from eval_strategy",
    ),
    inert(Section::Training, "use_cpu", DEVICE),
    inert(Section::Training, "no_cuda", DEVICE),
    inert(Section::Training, "tf32", DEVICE),
    inert(
        Section::Training,
        "half_precision_backend",
        "precision follows from bf16 and pure_bf16",
    ),
    inert(
        Section::Training,
        "full_determinism",
        "the same seed gives the same losses on the CPU already",
    ),
    inert(
        Section::Training,
        "average_tokens_across_devices",
        "the loss is the mean over the valid tokens of the whole step",
    ),
    inert(Section::Training, "torch_empty_cache_steps", DEVICE),
    inert(Section::Training, "galore_target", OFF_FEATURE),
    inert(Section::Training, "galore_rank", OFF_FEATURE),
    inert(Section::Training, "galore_update_interval", OFF_FEATURE),
    inert(Section::Training, "galore_scale", OFF_FEATURE),
    inert(Section::Training, "galore_proj_type", OFF_FEATURE),
    inert(Section::Training, "galore_layerwise", OFF_FEATURE),
    inert(Section::Training, "apollo_target", OFF_FEATURE),
    inert(Section::Training, "apollo_rank", OFF_FEATURE),
    inert(Section::Training, "apollo_update_interval", OFF_FEATURE),
    inert(Section::Training, "apollo_scale", OFF_FEATURE),
    inert(Section::Training, "badam_mode", OFF_FEATURE),
    inert(Section::Training, "badam_switch_mode", OFF_FEATURE),
    inert(Section::Training, "badam_switch_interval", OFF_FEATURE),
    inert(Section::Training, "badam_update_ratio", OFF_FEATURE),
    inert(Section::Training, "asft_alpha", OFF_FEATURE),
    inert(Section::Training, "eaft_alpha", OFF_FEATURE),
    inert(Section::Method, "pissa_iter", OFF_FEATURE),
    inert(Section::Method, "oft_rank", OFF_FEATURE),
    inert(Section::Method, "oft_block_size", OFF_FEATURE),
    inert(Section::Method, "oft_target", OFF_FEATURE),
    inert(Section::Method, "module_dropout", OFF_FEATURE),
    // Preference.
    inert(Section::Preference, "pref_bco_weight", PREFERENCE),
    inert(Section::Preference, "ld_alpha", PREFERENCE),
    inert(Section::Preference, "ref_model", PREFERENCE),
    inert(Section::Preference, "ref_model_adapters", PREFERENCE),
    inert(
        Section::Preference,
        "ref_model_quantization_bit",
        PREFERENCE,
    ),
    inert(Section::Preference, "reward_model", PREFERENCE),
    inert(Section::Preference, "reward_model_adapters", PREFERENCE),
    inert(
        Section::Preference,
        "reward_model_quantization_bit",
        PREFERENCE,
    ),
    inert(Section::Preference, "reward_model_type", PREFERENCE),
    inert(Section::Preference, "ppo_buffer_size", PREFERENCE),
    inert(Section::Preference, "ppo_epochs", PREFERENCE),
    inert(Section::Preference, "ppo_score_norm", PREFERENCE),
    inert(Section::Preference, "ppo_target", PREFERENCE),
    inert(Section::Preference, "ppo_whiten_rewards", PREFERENCE),
    // Evaluation and generation.
    inert(
        Section::Evaluation,
        "eval_accumulation_steps",
        "only the loss is kept of an evaluation",
    ),
    inert(
        Section::Evaluation,
        "eval_do_concat_batches",
        "only the loss is kept of an evaluation",
    ),
    inert(
        Section::Evaluation,
        "prediction_loss_only",
        "only the loss is kept of an evaluation",
    ),
    inert(
        Section::Evaluation,
        "bf16_full_eval",
        "evaluation has the precision of training",
    ),
    inert(
        Section::Evaluation,
        "fp16_full_eval",
        "evaluation has the precision of training",
    ),
    inert(Section::Evaluation, "greater_is_better", OFF_FEATURE),
    inert(Section::Evaluation, "metric_for_best_model", OFF_FEATURE),
    inert(Section::Evaluation, "generation_max_length", GENERATION),
    inert(Section::Evaluation, "generation_num_beams", GENERATION),
    inert(Section::Evaluation, "generation_config", GENERATION),
    inert(Section::Evaluation, "do_sample", GENERATION),
    inert(Section::Evaluation, "temperature", GENERATION),
    inert(Section::Evaluation, "top_p", GENERATION),
    inert(Section::Evaluation, "top_k", GENERATION),
    inert(Section::Evaluation, "num_beams", GENERATION),
    inert(Section::Evaluation, "max_length", GENERATION),
    inert(Section::Evaluation, "max_new_tokens", GENERATION),
    inert(Section::Evaluation, "repetition_penalty", GENERATION),
    inert(Section::Evaluation, "length_penalty", GENERATION),
    inert(Section::Evaluation, "skip_special_tokens", GENERATION),
    inert(Section::Evaluation, "sample_backend", GENERATION).dialect(Dialect::V1),
    // Checkpoint.
    inert(Section::Checkpoint, "save_safetensors", SAFETENSORS),
    inert(
        Section::Checkpoint,
        "save_on_each_node",
        "checkpoints go to the run directory",
    ),
    inert(
        Section::Checkpoint,
        "restore_callback_states_from_checkpoint",
        "there are no callbacks",
    ),
    // Logging.
    inert(Section::Logging, "logging_dir", LOGGING),
    inert(Section::Logging, "logging_strategy", LOGGING),
    inert(
        Section::Logging,
        "logging_nan_inf_filter",
        "NaN and infinite values are shown as they are",
    ),
    inert(Section::Logging, "log_level", LOGGING),
    inert(Section::Logging, "log_level_replica", LOGGING),
    inert(Section::Logging, "log_on_each_node", LOGGING),
    inert(Section::Logging, "disable_tqdm", LOGGING),
    inert(Section::Logging, "skip_memory_metrics", LOGGING),
    inert(
        Section::Logging,
        "include_tokens_per_second",
        "tokens per second are always recorded",
    ),
    inert(
        Section::Logging,
        "include_effective_tokens_per_second",
        "tokens per second are always recorded",
    ),
    inert(Section::Logging, "project", LOGGING),
    inert(Section::Logging, "trackio_space_id", LOGGING),
    inert(Section::Logging, "hub_private_repo", LOGGING),
    inert(Section::Logging, "hub_model_id", OFF_FEATURE),
    inert(Section::Logging, "hub_strategy", OFF_FEATURE),
    inert(Section::Logging, "swanlab_project", OFF_FEATURE),
    inert(Section::Logging, "swanlab_workspace", OFF_FEATURE),
    inert(Section::Logging, "swanlab_run_name", OFF_FEATURE),
    inert(Section::Logging, "swanlab_mode", OFF_FEATURE),
    inert(Section::Logging, "swanlab_logdir", OFF_FEATURE),
    // Distributed.
    inert(Section::Distributed, "local_rank", LOCAL_ONLY),
    inert(
        Section::Distributed,
        "ddp_backend",
        "the backend follows the device: Gloo on the CPU",
    ),
    inert(
        Section::Distributed,
        "ddp_timeout",
        "dist_timeout is the wait for another rank",
    ),
    inert(
        Section::Distributed,
        "ddp_find_unused_parameters",
        "unused parameters are found by the block executor",
    ),
    inert(Section::Distributed, "ddp_bucket_cap_mb", LOCAL_ONLY),
    inert(Section::Distributed, "ddp_broadcast_buffers", LOCAL_ONLY),
    inert(Section::Distributed, "accelerator_config", LOCAL_ONLY),
    inert(Section::Distributed, "ray_run_name", OFF_FEATURE),
    inert(Section::Distributed, "ray_storage_path", OFF_FEATURE),
    inert(Section::Distributed, "ray_num_workers", OFF_FEATURE),
    inert(Section::Distributed, "resources_per_worker", OFF_FEATURE),
    inert(Section::Distributed, "placement_strategy", OFF_FEATURE),
];

const fn inert(section: Section, name: &'static str, reason: &'static str) -> Key {
    Key::new(section, name, Kind::Any, reason)
        .effect(Effect::NoEffect(reason))
        .not_stored()
}
