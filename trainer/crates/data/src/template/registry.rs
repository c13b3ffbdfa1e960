//! The templates by name.

use std::borrow::Cow;

use super::tools::ToolFormat;
use super::{ChatTemplate, Slot, TemplateOptions};

/// The templates there are.
pub const NAMES: &[&str] = &[
    "alpaca",
    "chatml",
    "default",
    "empty",
    "llama3",
    "qwen",
    "qwen3",
    "qwen3_nothink",
    "smollm2",
];

const CHATML_SYSTEM: &str = "<|im_start|>system\n{{content}}<|im_end|>\n";
const CHATML_USER: &str = "<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n";
const CHATML_ASSISTANT: &str = "{{content}}<|im_end|>\n";
const CHATML_TOOL: &str = "<|im_start|>tool\n{{content}}<|im_end|>\n<|im_start|>assistant\n";
const QWEN_TOOL: &str = "<|im_start|>user\n<tool_response>\n{{content}}\n</tool_response><|im_end|>\n<|im_start|>assistant\n";

/// Returns the template `name`.
pub(super) fn named(name: &str, options: &TemplateOptions) -> Option<ChatTemplate> {
    let template = match name {
        "alpaca" => alpaca(),
        "chatml" => chatml(),
        "default" => default(),
        "empty" => empty(),
        "llama3" => llama3(),
        "qwen" => Draft {
            default_system: "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
            ..qwen("qwen")
        },
        "qwen3" => Draft {
            reasoning: true,
            ..qwen("qwen3")
        },
        "qwen3_nothink" => qwen("qwen3_nothink"),
        "smollm2" => smollm2(),
        _ => return None,
    };
    Some(template.finish(options))
}

/// A template as it is written down here; what is left out follows from the rest.
struct Draft {
    name: &'static str,
    prefix: Vec<Slot>,
    system: Vec<Slot>,
    user: Vec<Slot>,
    assistant: Vec<Slot>,
    /// As `user` where empty.
    observation: Vec<Slot>,
    tools: ToolFormat,
    default_system: &'static str,
    stop_words: Vec<&'static str>,
    replace_eos: bool,
    replace_jinja: bool,
    reasoning: bool,
}

impl Draft {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            prefix: Vec::new(),
            system: text("{{content}}"),
            user: text("{{content}}"),
            assistant: text("{{content}}"),
            observation: Vec::new(),
            tools: ToolFormat::Default,
            default_system: "",
            stop_words: Vec::new(),
            replace_eos: false,
            replace_jinja: false,
            reasoning: false,
        }
    }

    fn finish(self, options: &TemplateOptions) -> ChatTemplate {
        let observation = if self.observation.is_empty() {
            self.user.clone()
        } else {
            self.observation
        };
        ChatTemplate {
            name: Cow::Borrowed(self.name),
            prefix: self.prefix,
            system: self.system,
            user: self.user,
            function: self.assistant.clone(),
            assistant: self.assistant,
            observation,
            tools: self.tools,
            default_system: options
                .default_system
                .clone()
                .unwrap_or_else(|| self.default_system.into()),
            stop_words: self.stop_words,
            replace_eos: self.replace_eos,
            replace_jinja: self.replace_jinja,
            reasoning: self.reasoning,
            options: options.clone(),
        }
    }
}

fn text(text: &'static str) -> Vec<Slot> {
    vec![Slot::Text(Cow::Borrowed(text))]
}

fn empty() -> Draft {
    Draft::new("empty")
}

fn alpaca() -> Draft {
    Draft {
        user: text("### Instruction:\n{{content}}\n\n### Response:\n"),
        assistant: [text("{{content}}"), vec![Slot::Eos], text("\n\n")].concat(),
        default_system: "Below is an instruction that describes a task. \
                         Write a response that appropriately completes the request.\n\n",
        replace_jinja: true,
        ..Draft::new("alpaca")
    }
}

fn default() -> Draft {
    Draft {
        system: [text("System: {{content}}"), vec![Slot::Eos], text("\n")].concat(),
        user: [
            text("Human: {{content}}"),
            vec![Slot::Eos],
            text("\nAssistant:"),
        ]
        .concat(),
        assistant: [text("{{content}}"), vec![Slot::Eos], text("\n")].concat(),
        replace_jinja: true,
        ..Draft::new("default")
    }
}

fn chatml() -> Draft {
    Draft {
        system: text(CHATML_SYSTEM),
        user: text(CHATML_USER),
        assistant: text(CHATML_ASSISTANT),
        observation: text(CHATML_TOOL),
        stop_words: vec!["<|im_end|>", "<|im_start|>"],
        replace_eos: true,
        replace_jinja: true,
        ..Draft::new("chatml")
    }
}

fn smollm2() -> Draft {
    Draft {
        system: text(CHATML_SYSTEM),
        user: text(CHATML_USER),
        assistant: text(CHATML_ASSISTANT),
        default_system: "You are a helpful AI assistant named SmolLM, trained by Hugging Face.",
        stop_words: vec!["<|im_end|>"],
        ..Draft::new("smollm2")
    }
}

fn qwen(name: &'static str) -> Draft {
    Draft {
        system: text(CHATML_SYSTEM),
        user: text(CHATML_USER),
        assistant: text(CHATML_ASSISTANT),
        observation: text(QWEN_TOOL),
        tools: ToolFormat::Qwen,
        stop_words: vec!["<|im_end|>"],
        replace_eos: true,
        ..Draft::new(name)
    }
}

fn llama3() -> Draft {
    Draft {
        prefix: vec![Slot::Bos],
        system: text("<|start_header_id|>system<|end_header_id|>\n\n{{content}}<|eot_id|>"),
        user: text(
            "<|start_header_id|>user<|end_header_id|>\n\n{{content}}<|eot_id|>\
             <|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        assistant: text("{{content}}<|eot_id|>"),
        observation: text(
            "<|start_header_id|>ipython<|end_header_id|>\n\n{{content}}<|eot_id|>\
             <|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        tools: ToolFormat::Llama3,
        stop_words: vec!["<|eot_id|>", "<|eom_id|>"],
        replace_eos: true,
        ..Draft::new("llama3")
    }
}
