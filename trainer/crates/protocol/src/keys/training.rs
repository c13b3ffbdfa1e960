//! Keys of the sections training, evaluation, checkpoint and logging.

use super::{Dialect::Classic, Effect, Key, Kind, Section};
use crate::choices::{EvalStrategy, LrScheduler, SaveStrategy, TokenCount};

pub(super) const KEYS: &[Key] = &[
    training(
        "output_dir",
        Kind::Path,
        "Folder for the results; the board uses the run's own",
    )
    .optional(),
    training(
        "per_device_train_batch_size",
        Kind::Integer,
        "Rows of one forward pass on one rank",
    )
    .dialect(Classic)
    .default("8")
    .v1_default("1")
    .range(1.0, 65_536.0),
    training(
        "gradient_accumulation_steps",
        Kind::Integer,
        "Forward passes of one optimizer step",
    )
    .dialect(Classic)
    .default("1")
    .range(1.0, 1_048_576.0),
    training("learning_rate", Kind::Number, "Highest learning rate")
        .default("5e-5")
        .v1_default("1e-4")
        .range(0.0, 1e3),
    training(
        "num_train_epochs",
        Kind::Number,
        "Passes over the data; a fraction is allowed",
    )
    .default("3")
    .above(0.0),
    training(
        "max_steps",
        Kind::Integer,
        "Optimizer steps; overrides the epochs; empty or -1 counts epochs",
    )
    .optional()
    .unit("steps")
    .at_least(1.0),
    training(
        "lr_scheduler_type",
        Kind::Choice(LrScheduler::CHOICES),
        "How the learning rate changes over the run",
    )
    .dialect(Classic)
    .default("linear")
    .v1_default("constant"),
    training(
        "warmup_ratio",
        Kind::Number,
        "Share of the steps over which the learning rate rises",
    )
    .dialect(Classic)
    .default("0")
    .range(0.0, 1.0),
    training(
        "warmup_steps",
        Kind::Integer,
        "Steps over which the learning rate rises; above 0 it beats the ratio",
    )
    .dialect(Classic)
    .default("0")
    .unit("steps")
    .at_least(0.0),
    training("weight_decay", Kind::Number, "Decoupled weight decay")
        .dialect(Classic)
        .default("0")
        .v1_default("0.01")
        .range(0.0, 1e3),
    training("adam_beta1", Kind::Number, "Decay of the first moment")
        .dialect(Classic)
        .default("0.9")
        .below(1.0),
    training("adam_beta2", Kind::Number, "Decay of the second moment")
        .dialect(Classic)
        .default("0.999")
        .below(1.0),
    training(
        "adam_epsilon",
        Kind::Number,
        "Term that keeps the division finite",
    )
    .dialect(Classic)
    .default("1e-8")
    .at_least(0.0),
    training(
        "max_grad_norm",
        Kind::Number,
        "Largest gradient norm; 0 turns clipping off",
    )
    .default("1")
    .at_least(0.0),
    training("seed", Kind::Integer, "Seed of weights, dropout and order")
        .default("42")
        .range(0.0, 4_294_967_295.0),
    training(
        "data_seed",
        Kind::Integer,
        "Seed of the order alone; empty takes the seed",
    )
    .dialect(Classic)
    .optional()
    .range(0.0, 4_294_967_295.0),
    training(
        "bf16",
        Kind::Bool,
        "Compute in bfloat16, keep float32 master weights",
    )
    .default("false")
    .v1_default("true"),
    training("fp16", Kind::Bool, "Compute in float16 with loss scaling")
        .dialect(Classic)
        .default("false"),
    training(
        "pure_bf16",
        Kind::Bool,
        "Keep the weights themselves in bfloat16",
    )
    .dialect(Classic)
    .default("false"),
    training(
        "disable_gradient_checkpointing",
        Kind::Bool,
        "Keep activations instead of computing them again: faster, more memory",
    )
    .dialect(Classic)
    .default("false"),
    training(
        "gradient_checkpointing",
        Kind::Bool,
        "Hugging Face's spelling, which means the opposite",
    )
    .stands_for("disable_gradient_checkpointing")
    .dialect(Classic),
    evaluation(
        "eval_strategy",
        Kind::Choice(EvalStrategy::CHOICES),
        "When to evaluate",
    )
    .aliases(&["evaluation_strategy"])
    .default("no"),
    evaluation(
        "eval_steps",
        Kind::Integer,
        "Steps between evaluations; empty takes logging_steps",
    )
    .optional()
    .unit("steps")
    .at_least(1.0)
    .needs("eval_strategy", &["steps"]),
    evaluation(
        "per_device_eval_batch_size",
        Kind::Integer,
        "Rows of one forward pass in evaluation",
    )
    .default("8")
    .range(1.0, 65_536.0),
    evaluation(
        "eval_on_start",
        Kind::Bool,
        "Evaluate before the first step",
    )
    .default("false"),
    checkpoint(
        "save_strategy",
        Kind::Choice(SaveStrategy::CHOICES),
        "When to save a checkpoint",
    )
    .dialect(Classic)
    .default("steps")
    .v1_default("no"),
    checkpoint("save_steps", Kind::Integer, "Steps between checkpoints")
        .default("500")
        .unit("steps")
        .at_least(1.0)
        .needs("save_strategy", &["steps"]),
    checkpoint(
        "save_total_limit",
        Kind::Integer,
        "Newest checkpoints kept; empty keeps all",
    )
    .optional()
    .at_least(1.0),
    checkpoint(
        "save_only_model",
        Kind::Bool,
        "Save weights alone; such a checkpoint cannot be resumed",
    )
    .dialect(Classic)
    .default("false"),
    checkpoint(
        "resume_from_checkpoint",
        Kind::Text,
        "Checkpoint folder, or auto for the newest; empty starts afresh",
    )
    .optional(),
    checkpoint(
        "overwrite_output_dir",
        Kind::Bool,
        "Start afresh in a folder that holds an older run",
    )
    .dialect(Classic)
    .default("false"),
    logging(
        "logging_steps",
        Kind::Integer,
        "Steps between lines of the log file; curves have every step",
    )
    .default("500")
    .v1_default("1")
    .unit("steps")
    .at_least(1.0),
    logging("logging_first_step", Kind::Bool, "Log the first step too")
        .dialect(Classic)
        .default("false"),
    logging("plot_loss", Kind::Bool, "Draw training_loss.svg at the end")
        .dialect(Classic)
        .default("false"),
    logging(
        "include_num_input_tokens_seen",
        Kind::Choice(TokenCount::CHOICES),
        "Which input tokens are counted",
    )
    .dialect(Classic)
    .default("no")
    .effect(Effect::NoEffect(
        "input tokens are always counted, and there is no padding to count",
    )),
    logging("run_name", Kind::Text, "Name of the run in lists")
        .dialect(Classic)
        .optional(),
];

const fn training(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key::new(Section::Training, name, kind, help)
}

const fn evaluation(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key::new(Section::Evaluation, name, kind, help).dialect(Classic)
}

const fn checkpoint(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key::new(Section::Checkpoint, name, kind, help)
}

const fn logging(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key::new(Section::Logging, name, kind, help)
}
