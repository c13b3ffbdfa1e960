//! The words that a configuration may use, each with its help and its availability.
//!
//! This is the single place to flip when a stage, a method, a backend or a template arrives.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::availability::{Availability, Choice};

/// Why the choices of the distributed engine are not there yet.
const DISTRIBUTED: &str = "arrives with the distributed engine";
/// Why the other stages are not there yet.
const STAGES: &str = "arrives with the other training stages; this version trains `sft`";
/// Why the other schedules are not there yet.
const SCHEDULES: &str =
    "arrives with the other schedules; `linear`, `cosine` and `constant` work now";
/// Why the other templates are not there yet.
const TEMPLATES: &str = "arrives with the other model families";
/// Why other attention code is not there.
const ATTENTION: &str = "is not part of this build, which uses libtorch's fused attention";

/// A word that is not in a list of choices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not one of the choices")]
pub struct UnknownChoice(pub String);

/// Declares an enum of words with its list of choices.
macro_rules! choices {
    (
        $(#[$meta:meta])*
        $name:ident {
            $( $variant:ident = $word:literal $([$($alias:literal),*])? $(later $reason:expr)? => $help:literal, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $(
                #[doc = concat!("`", $word, "` in the YAML; [`Self::help`] says what it does.")]
                #[serde(rename = $word)]
                $variant,
            )*
        }

        impl $name {
            /// Every value, in the order of the form.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The same list with help and availability.
            pub const CHOICES: &'static [Choice] = &[
                $( Choice {
                    value: $word,
                    aliases: &[$($($alias),*)?],
                    availability: choices!(@availability $($reason)?),
                    help: $help,
                }, )*
            ];

            /// Returns the word that the YAML uses.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )* }
            }

            /// Returns what it does, in one line.
            pub const fn help(self) -> &'static str {
                match self { $( Self::$variant => $help, )* }
            }

            /// Returns whether this version can do it.
            pub const fn availability(self) -> Availability {
                match self { $( Self::$variant => choices!(@availability $($reason)?), )* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownChoice;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                Self::ALL
                    .iter()
                    .zip(Self::CHOICES)
                    .find(|(_, choice)| choice.is_named(word))
                    .map(|(value, _)| *value)
                    .ok_or_else(|| UnknownChoice(word.to_owned()))
            }
        }
    };
    (@availability) => { Availability::Available };
    (@availability $reason:expr) => { Availability::Later($reason) };
}

choices! {
    /// What a run teaches the model.
    Stage {
        Sft = "sft" => "Supervised fine-tuning on conversations",
        Pt = "pt" later STAGES => "Continued pre-training on plain text",
        Rm = "rm" later STAGES => "Reward model from preference pairs",
        Dpo = "dpo" later STAGES => "Direct preference optimization",
        Kto = "kto" later STAGES => "Preference learning from single labelled answers",
        Ppo = "ppo" later STAGES => "Reinforcement learning with a reward model",
    }
}

choices! {
    /// Which parameters a run changes.
    FinetuningType {
        Lora = "lora" => "Small adapter matrices beside the frozen weights",
        Full = "full" => "Every weight of the model",
        Freeze = "freeze" later "arrives with the other tuning methods; `lora` and `full` work now" => "Some layers of the model, the rest stays frozen",
        Oft = "oft" later "is not built in; `lora` is the nearest" => "Orthogonal fine-tuning adapters",
    }
}

choices! {
    /// How the ranks of a run divide the work.
    Backend {
        Single = "single" => "One process",
        Ddp = "ddp" later DISTRIBUTED => "A full copy on every rank, gradients averaged",
        Fsdp2 = "fsdp2" later DISTRIBUTED => "Every parameter sharded over the ranks",
        Fsdpturbo = "fsdpturbo" later DISTRIBUTED => "FSDP2 plus expert parallelism for mixture-of-experts models",
        Deepspeed = "deepspeed" later DISTRIBUTED => "ZeRO stages as a DeepSpeed JSON describes them",
        Ulysses = "ulysses" later DISTRIBUTED => "Long sequences split over the ranks, on FSDP2",
    }
}

choices! {
    /// The name inside `dist_config`.
    DistName {
        Fsdp2 = "fsdp2" later DISTRIBUTED => "Every parameter sharded over the ranks",
        Fsdpturbo = "fsdpturbo" later DISTRIBUTED => "FSDP2 plus expert parallelism",
        Deepspeed = "deepspeed" later DISTRIBUTED => "ZeRO stages as a DeepSpeed JSON describes them",
    }
}

choices! {
    /// The prompt format of a model.
    Template {
        Default = "default" => "Human and Assistant, for base models",
        Alpaca = "alpaca" => "### Instruction and ### Response",
        Chatml = "chatml" => "ChatML without a default system prompt",
        Smollm2 = "smollm2" => "SmolLM2 instruct models",
        Qwen = "qwen" => "Qwen2 and Qwen2.5 instruct models",
        Qwen3 = "qwen3" => "Qwen3 models that think",
        Llama3 = "llama3" => "Llama 3 instruct models",
        Qwen3Nothink = "qwen3_nothink" => "Qwen3 instruct models that do not think",
        Empty = "empty" => "No format at all",
        Llama2 = "llama2" later TEMPLATES => "Llama 2 chat models",
        Mistral = "mistral" later TEMPLATES => "Mistral instruct models",
        Gemma = "gemma" later TEMPLATES => "Gemma instruct models",
        Vicuna = "vicuna" later TEMPLATES => "Vicuna models",
        Deepseek3 = "deepseek3" later TEMPLATES => "DeepSeek V3",
        Deepseekr1 = "deepseekr1" later TEMPLATES => "DeepSeek R1 and its distilled models",
    }
}

choices! {
    /// How the learning rate changes over the run.
    LrScheduler {
        Linear = "linear" => "Warm-up, then a straight line to zero",
        Cosine = "cosine" => "Warm-up, then half a cosine to zero",
        Constant = "constant" => "The same from the first step to the last",
        ConstantWithWarmup = "constant_with_warmup" => "Warm-up, then constant",
        CosineWithRestarts = "cosine_with_restarts" later SCHEDULES => "Cosine that starts again",
        Polynomial = "polynomial" later SCHEDULES => "Warm-up, then a polynomial",
        InverseSqrt = "inverse_sqrt" later SCHEDULES => "Warm-up, then one over the root of the step",
        ReduceLrOnPlateau = "reduce_lr_on_plateau" later SCHEDULES => "Smaller whenever the evaluation stops improving",
        CosineWithMinLr = "cosine_with_min_lr" later SCHEDULES => "Cosine down to a floor",
        CosineWarmupWithMinLr = "cosine_warmup_with_min_lr" later SCHEDULES => "Cosine down to a floor, with a warm-up from a floor",
        WarmupStableDecay = "warmup_stable_decay" later SCHEDULES => "Warm-up, constant, then a decay",
    }
}

choices! {
    /// When a run saves a checkpoint.
    SaveStrategy {
        No = "no" => "Only at the end",
        Steps = "steps" => "Every `save_steps` steps",
        Epoch = "epoch" => "At the end of each epoch",
        Best = "best" later "arrives with best-checkpoint selection" => "Whenever the evaluation improves",
    }
}

choices! {
    /// When a run evaluates.
    EvalStrategy {
        No = "no" => "Never",
        Steps = "steps" => "Every `eval_steps` steps",
        Epoch = "epoch" => "At the end of each epoch",
    }
}

choices! {
    /// Which attention code runs.
    AttentionKind {
        Auto = "auto" => "libtorch's fused attention",
        Sdpa = "sdpa" => "libtorch's fused attention",
        Fa2 = "fa2" ["flash_attention_2"] => "libtorch's fused attention",
        Disabled = "disabled" ["eager"] later ATTENTION => "Attention written out",
        Fa3 = "fa3" ["flash_attention_3"] later ATTENTION => "FlashAttention 3",
    }
}

choices! {
    /// The loss of a preference run.
    PrefLoss {
        Sigmoid = "sigmoid" => "DPO",
        Hinge = "hinge" => "SLiC hinge",
        Ipo = "ipo" => "IPO",
        KtoPair = "kto_pair" => "KTO on pairs",
        Orpo = "orpo" => "ORPO, without a reference model",
        Simpo = "simpo" => "SimPO, without a reference model",
    }
}

choices! {
    /// Which input tokens a run counts.
    TokenCount {
        No = "no" ["false", "False"] => "No count",
        All = "all" ["true", "True"] => "Every token, padding included",
        NonPadding = "non_padding" => "Every token except padding",
    }
}

choices! {
    /// The number format of a run, as `bf16`, `fp16` and `pure_bf16` ask for it.
    Precision {
        Fp32 = "fp32" => "float32 throughout",
        Bf16 = "bf16" => "bfloat16 compute, float32 master weights",
        PureBf16 = "pure_bf16" => "bfloat16 weights and compute, no master copy",
        Fp16 = "fp16" later "arrives with GPU training; use `bf16`" => "float16 compute with loss scaling",
    }
}
