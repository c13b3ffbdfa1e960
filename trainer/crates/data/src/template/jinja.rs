//! Writing a template as Jinja text, for the trained model's folder: who loads it then sees the format it was trained on.
//!
//! Tools and thoughts are left out.

use std::fmt::Write as _;

use super::{ChatTemplate, MARKER, Slot};
use crate::tokenizer::Tokenizer;

/// Returns the Jinja text of `template`.
pub(super) fn write(template: &ChatTemplate, tokenizer: &Tokenizer) -> String {
    let mut text = String::new();
    let prefix = expression(&template.prefix, "content", tokenizer);
    if !prefix.is_empty() {
        let _ = write!(text, "{{{{ {prefix} }}}}");
    }
    if !template.default_system.is_empty() {
        let _ = write!(
            text,
            "{{% set system = {} %}}",
            quoted(&template.default_system)
        );
    }
    let _ = write!(
        text,
        "{{% set turns = messages %}}\
         {{% if messages[0]['role'] == 'system' %}}{{% set turns = messages[1:] %}}\
         {{% set system = messages[0]['content'] %}}{{% endif %}}\
         {{% if system is defined %}}{{{{ {} }}}}{{% endif %}}\
         {{% for turn in turns %}}{{% set content = turn['content'] %}}\
         {{% if turn['role'] == 'user' %}}{{{{ {} }}}}\
         {{% elif turn['role'] == 'assistant' %}}{{{{ {} }}}}{{% endif %}}{{% endfor %}}",
        expression(&template.system, "system", tokenizer),
        expression(&template.user, "content", tokenizer),
        expression(&template.assistant, "content", tokenizer),
    );
    text
}

/// Returns the slots as a Jinja expression with `variable` for the message.
fn expression(slots: &[Slot], variable: &str, tokenizer: &Tokenizer) -> String {
    let mut parts = Vec::new();
    for slot in slots {
        match slot {
            Slot::Text(text) => match text.split_once(MARKER) {
                Some((before, after)) => {
                    parts.extend([quoted(before), variable.to_owned(), quoted(after)]);
                }
                None => parts.push(quoted(text)),
            },
            // Not the variables `bos_token` and `eos_token`, which another program may change.
            Slot::Bos => parts.extend(tokenizer.bos_token().map(quoted)),
            Slot::Eos => parts.extend(tokenizer.eos_token().map(quoted)),
        }
    }
    parts.retain(|part| part != "''");
    parts.join(" + ")
}

fn quoted(text: &str) -> String {
    format!(
        "'{}'",
        text.replace('\\', "\\\\")
            .replace('\'', "\\'")
            .replace('\n', "\\n")
    )
}
