//! The sections of [`RunConfig`](super::RunConfig). A field's name is its key in the YAML.
//!
//! Defaults, ranges and spellings live in the key table ([`crate::keys`]), not here; a test compares the two.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::paths::text;
use crate::choices::{
    AttentionKind, Backend, DistName, EvalStrategy, FinetuningType, LrScheduler, Precision,
    PrefLoss, SaveStrategy, Template, TokenCount,
};

/// Which model a run starts from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSection {
    /// Folder of the model in Hugging Face's layout. Empty only in a config that is not checked yet.
    #[serde(serialize_with = "text::one")]
    pub model_name_or_path: PathBuf,
    /// Adapter folders: all but the last are merged, the last is continued. Empty starts a new adapter.
    #[serde(serialize_with = "text::list")]
    pub adapter_name_or_path: Vec<PathBuf>,
    /// Attention code.
    pub flash_attn: AttentionKind,
}

/// Which data a run learns from and how rows become tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one field for each key of the dialect"
)]
pub struct DataSection {
    /// Names in `dataset_info.json`, in order.
    pub dataset: Vec<String>,
    /// Names to evaluate on. Empty: see `val_size`.
    pub eval_dataset: Vec<String>,
    /// Folder with `dataset_info.json`.
    #[serde(serialize_with = "text::one")]
    pub dataset_dir: PathBuf,
    /// Prompt format. `None` is refused for chat stages.
    pub template: Option<Template>,
    /// Most tokens of one row; longer rows are cut.
    pub cutoff_len: usize,
    /// First rows taken of each dataset. `None` takes all.
    pub max_samples: Option<usize>,
    /// Held back for evaluation: below 1 a share, from 1 a number of rows. 0 holds nothing back.
    pub val_size: f64,
    /// Evaluate each dataset by itself, as `eval_<name>_loss`.
    pub eval_on_each_dataset: bool,
    /// Learn the last answer of a conversation only.
    pub mask_history: bool,
    /// Learn the prompt too.
    pub train_on_prompt: bool,
    /// Where thinking templates put an empty thought: `true` into the answer, `false` into the prompt while dropping
    /// real ones, `None` into the prompt while keeping them.
    pub enable_thinking: Option<bool>,
    /// Keep the thoughts of earlier turns.
    pub preserve_thinking: bool,
    /// Take rows in their order in the file.
    pub disable_shuffling: bool,
    /// System prompt for rows without one. `None` leaves the template's own.
    pub default_system: Option<String>,
    /// Format of tool calls. `None` takes the template's.
    pub tool_format: Option<String>,
}

/// Which parameters a run changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MethodSection {
    /// Full, LoRA or freeze.
    pub finetuning_type: FinetuningType,
    /// Rank of the adapter matrices.
    pub lora_rank: usize,
    /// Scale of the adapter; `None` is twice the rank. See [`MethodSection::lora_alpha`].
    pub lora_alpha: Option<f64>,
    /// Share of adapter inputs set to zero in training.
    pub lora_dropout: f64,
    /// Module names that get an adapter; `all` means every linear layer but the head.
    pub lora_target: Vec<String>,
    /// Scale by the root of the rank.
    pub use_rslora: bool,
    /// Learning rate of the B matrices over that of A. `None` turns LoRA+ off.
    pub loraplus_lr_ratio: Option<f64>,
    /// Learning rate of embedding adapters under LoRA+.
    pub loraplus_lr_embedding: f64,
    /// Merge the given adapters and start a new one.
    pub create_new_adapter: bool,
    /// Modules trained and saved whole beside the adapter.
    pub additional_target: Vec<String>,
    /// Layers that freeze tuning trains: the last n, or the first n if negative.
    pub freeze_trainable_layers: i64,
    /// Modules of those layers; `all` takes every one.
    pub freeze_trainable_modules: Vec<String>,
    /// Modules outside the layers that are trained too.
    pub freeze_extra_modules: Vec<String>,
}

impl MethodSection {
    /// Returns the LoRA alpha in use: the given one, else twice the rank.
    pub fn alpha(&self) -> f64 {
        self.lora_alpha.unwrap_or(2.0 * self.lora_rank as f64)
    }

    /// Whether every linear layer gets an adapter.
    pub fn is_lora_target_all(&self) -> bool {
        self.lora_target.iter().any(|name| name == "all")
    }
}

/// How a run optimizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one field for each key of the dialect"
)]
pub struct TrainingSection {
    /// Folder for the results. The board uses the run directory instead. `None` there or from a shell that gives one.
    #[serde(serialize_with = "text::option")]
    pub output_dir: Option<PathBuf>,
    /// Rows of one forward pass on one rank.
    pub per_device_train_batch_size: usize,
    /// Micro-batches of one optimizer step.
    pub gradient_accumulation_steps: usize,
    /// Rows of one optimizer step over all ranks, where the config names it. The accumulation follows from it.
    pub global_batch_size: Option<usize>,
    /// Highest learning rate.
    pub learning_rate: f64,
    /// Passes over the data; a fraction is allowed.
    pub num_train_epochs: f64,
    /// Optimizer steps; overrides the epochs. `None` counts epochs.
    pub max_steps: Option<u64>,
    /// Schedule of the learning rate.
    pub lr_scheduler_type: LrScheduler,
    /// Share of the steps for the warm-up.
    pub warmup_ratio: f64,
    /// Steps of the warm-up; above 0 it beats the ratio.
    pub warmup_steps: u64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// First moment's decay.
    pub adam_beta1: f64,
    /// Second moment's decay.
    pub adam_beta2: f64,
    /// Term that keeps the division finite.
    pub adam_epsilon: f64,
    /// Largest gradient norm. 0 turns clipping off.
    pub max_grad_norm: f64,
    /// Seed of weights, dropout and order.
    pub seed: u64,
    /// Seed of the order alone. `None` takes `seed`.
    pub data_seed: Option<u64>,
    /// bfloat16 compute with float32 masters.
    pub bf16: bool,
    /// float16 compute.
    pub fp16: bool,
    /// bfloat16 weights without masters.
    pub pure_bf16: bool,
    /// Keep activations instead of computing them again in backward.
    pub disable_gradient_checkpointing: bool,
}

impl TrainingSection {
    /// Returns the number format that the three switches ask for.
    pub fn precision(&self) -> Precision {
        if self.pure_bf16 {
            Precision::PureBf16
        } else if self.bf16 {
            Precision::Bf16
        } else if self.fp16 {
            Precision::Fp16
        } else {
            Precision::Fp32
        }
    }

    /// Returns the number of warm-up steps of a run of `total` steps.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a ratio in 0..=1 of a step count"
    )]
    pub fn warmup(&self, total: u64) -> u64 {
        if self.warmup_steps > 0 {
            self.warmup_steps
        } else {
            (self.warmup_ratio * total as f64).ceil() as u64
        }
    }
}

/// Losses of preference stages. Without effect in `sft`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreferenceSection {
    /// Weight of the divergence from the reference.
    pub pref_beta: f64,
    /// Weight of an added SFT loss.
    pub pref_ftx: f64,
    /// Which loss.
    pub pref_loss: PrefLoss,
    /// Margin of the loss `simpo`.
    pub simpo_gamma: f64,
    /// Label smoothing of the sigmoid loss.
    pub dpo_label_smoothing: f64,
    /// Weight of desirable answers.
    pub kto_chosen_weight: f64,
    /// Weight of undesirable answers.
    pub kto_rejected_weight: f64,
}

/// When and how a run evaluates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluationSection {
    /// When to evaluate.
    pub eval_strategy: EvalStrategy,
    /// Steps between evaluations. `None` takes `logging_steps`.
    pub eval_steps: Option<u64>,
    /// Rows of one forward pass in evaluation.
    pub per_device_eval_batch_size: usize,
    /// Evaluate before the first step.
    pub eval_on_start: bool,
}

/// When a run saves and what it starts from again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointSection {
    /// When to save.
    pub save_strategy: SaveStrategy,
    /// Steps between checkpoints.
    pub save_steps: u64,
    /// Newest checkpoints kept. `None` keeps all.
    pub save_total_limit: Option<usize>,
    /// Save weights without optimizer state; such a checkpoint cannot be resumed.
    pub save_only_model: bool,
    /// Checkpoint folder, or `auto` for the newest complete one. `None` starts afresh.
    pub resume_from_checkpoint: Option<String>,
    /// Start afresh in a folder that holds an older run.
    pub overwrite_output_dir: bool,
}

/// What a run writes down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoggingSection {
    /// Steps between lines of `trainer_log.jsonl`. Events are written at every step regardless.
    pub logging_steps: u64,
    /// Log the first step too.
    pub logging_first_step: bool,
    /// Draw `training_loss.svg` at the end.
    pub plot_loss: bool,
    /// Count input tokens.
    pub include_num_input_tokens_seen: TokenCount,
    /// Name of the run in lists.
    pub run_name: Option<String>,
}

/// How the ranks divide the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistributedSection {
    /// Backend by name. `None` follows from the keys below and the world size; see `RunConfig::backend`.
    pub backend: Option<Backend>,
    /// Sharding engine and its options. `None` is one rank or DDP.
    pub dist_config: Option<DistConfig>,
    /// Kind of context parallelism.
    pub cp_mode: String,
    /// Ranks that share one sequence.
    pub cp_size: usize,
    /// Ranks with different data. `None` takes the ranks left over.
    pub dp_size: Option<usize>,
    /// Full copies of the parameters.
    pub mp_replicate_size: usize,
    /// Ranks that share one copy. `None` takes the ranks left over.
    pub mp_shard_size: Option<usize>,
    /// Longest wait for another rank, in seconds.
    pub dist_timeout: u64,
}

/// The sharding engine's options. Which of them apply depends on the name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistConfig {
    /// Which engine.
    pub name: DistName,
    /// Free gathered parameters after the forward pass.
    pub reshard_after_forward: bool,
    /// Keep parameters and optimizer state in host memory.
    pub offload_params: bool,
    /// Pin that host memory.
    pub pin_memory: bool,
    /// Distributed checkpoint to load weights from.
    #[serde(serialize_with = "text::option")]
    pub dcp_path: Option<PathBuf>,
    /// Ranks that share the experts (`fsdpturbo`).
    pub ep_size: usize,
    /// How tokens travel to experts (`fsdpturbo`).
    pub ep_dispatcher: String,
    /// The DeepSpeed JSON (`deepspeed`).
    #[serde(serialize_with = "text::option")]
    pub config_file: Option<PathBuf>,
}
