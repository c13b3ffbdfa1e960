//! The chat template that a model brings along (Jinja), turned into slots.
//!
//! The Jinja text is rendered for a few conversations with a marker as content, and the slots are what stands around the
//! marker. That is how LLaMA-Factory does it when no `template` is set; tools are then written in the plain format.

use std::borrow::Cow;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value, context};

use super::tools::ToolFormat;
use super::{ChatTemplate, MARKER, Slot, TemplateOptions};
use crate::error::DataError;
use crate::tokenizer::Tokenizer;

/// Turns the Jinja text `source` into slots.
pub(super) fn understand(
    source: &str,
    tokenizer: &Tokenizer,
    options: &TemplateOptions,
) -> Result<ChatTemplate, DataError> {
    let start = tokenizer.start_of_text()?;
    let render = |messages: &[(&str, &str)], opens_answer: bool| {
        render(source, messages, opens_answer, tokenizer, options)
            .map_err(|error| refused(tokenizer, &error.to_string()))
    };
    // What every text of this tokenizer starts with is a prefix where the Jinja text writes it.
    let prefix = if render(&[("user", MARKER)], true)?.starts_with(&start) {
        start
    } else {
        String::new()
    };
    let render = |messages: &[(&str, &str)], opens_answer: bool| -> Result<String, DataError> {
        let text = render(messages, opens_answer)?;
        Ok(text.strip_prefix(&prefix).unwrap_or(&text).to_owned())
    };
    let system = render(&[("system", MARKER)], false)?;
    let user_empty_system = render(&[("system", ""), ("user", MARKER)], true)?;
    let user_whole = render(&[("user", MARKER)], true)?;
    let answered = render(&[("user", MARKER), ("assistant", MARKER)], false)?;

    let assistant = answered.get(user_whole.len()..).unwrap_or_default();
    let reasoning = assistant.contains("<think>");
    let assistant = assistant
        .replace("<think>", "")
        .replace("</think>", "")
        .trim_start_matches('\n')
        .to_owned();
    let (default_system, user) = if user_whole.len() > user_empty_system.len() {
        let default_system = inserted(&user_empty_system, &user_whole);
        let alone = system.replacen(MARKER, &default_system, 1);
        let user = user_whole.get(alone.len()..).unwrap_or_default().to_owned();
        (default_system, user)
    } else {
        (String::new(), user_whole)
    };
    if !user.contains(MARKER) || !assistant.contains(MARKER) {
        return Err(refused(
            tokenizer,
            "it does not write the messages as they are",
        ));
    }
    let slots = |text: String| {
        if text.is_empty() {
            Vec::new()
        } else {
            vec![Slot::Text(Cow::Owned(text))]
        }
    };
    Ok(ChatTemplate {
        name: Cow::Borrowed("the model's own"),
        prefix: slots(prefix.clone()),
        system: slots(system),
        user: slots(user.clone()),
        observation: slots(user),
        function: slots(assistant.clone()),
        assistant: slots(assistant),
        tools: ToolFormat::Default,
        default_system: options.default_system.clone().unwrap_or(default_system),
        stop_words: Vec::new(),
        replace_eos: false,
        replace_jinja: false,
        reasoning,
        options: options.clone(),
    })
}

fn refused(tokenizer: &Tokenizer, reason: &str) -> DataError {
    DataError::Tokenizer {
        path: tokenizer.dir().into(),
        reason: format!("the model's chat template cannot be understood: {reason}"),
        hint: Some(format!(
            "set `template` to one of: {}",
            super::NAMES.join(", ")
        )),
    }
}

/// Returns what `long` has more than `short`, character by character.
fn inserted(short: &str, long: &str) -> String {
    let mut expected = short.chars().peekable();
    long.chars()
        .filter(|character| expected.next_if_eq(character).is_none())
        .collect()
}

fn render(
    source: &str,
    messages: &[(&str, &str)],
    opens_answer: bool,
    tokenizer: &Tokenizer,
    options: &TemplateOptions,
) -> Result<String, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()?,
    );
    environment.set_unknown_method_callback(python_method);
    environment.add_function(
        "raise_exception",
        |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        },
    );
    let today = options.today;
    environment.add_function("strftime_now", move |format: String| {
        today.strftime(&format).to_string()
    });
    let messages: Vec<Value> = messages
        .iter()
        .map(|(role, content)| context! { role => *role, content => *content })
        .collect();
    environment.render_str(
        source,
        context! {
            messages,
            add_generation_prompt => opens_answer,
            bos_token => tokenizer.bos_token().unwrap_or_default(),
            eos_token => tokenizer.eos_token().unwrap_or_default(),
        },
    )
}

/// The methods of Python's strings and dictionaries that chat templates call.
fn python_method(
    state: &mut State,
    value: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    if value.kind() == ValueKind::Map && matches!(method, "items" | "get") {
        if method == "items" {
            return state.apply_filter("items", std::slice::from_ref(value));
        }
        let (key, default): (Value, Option<Value>) = from_args(arguments)?;
        let found = value.get_item(&key)?;
        return Ok(if found.is_undefined() {
            default.unwrap_or_else(|| Value::from(()))
        } else {
            found
        });
    }
    let Some(text) = value.as_str() else {
        return Err(Error::from(ErrorKind::UnknownMethod));
    };
    let first = || -> Result<&str, Error> {
        arguments.first().and_then(Value::as_str).ok_or_else(|| {
            Error::new(
                ErrorKind::MissingArgument,
                format!("`{method}` needs a string"),
            )
        })
    };
    let characters = |given: Option<&Value>| -> Vec<char> {
        given.and_then(Value::as_str).map_or_else(
            || " \t\r\n\u{b}\u{c}".chars().collect(),
            |set| set.chars().collect(),
        )
    };
    let set = characters(arguments.first());
    Ok(match method {
        "strip" => Value::from(text.trim_matches(set.as_slice())),
        "lstrip" => Value::from(text.trim_start_matches(set.as_slice())),
        "rstrip" => Value::from(text.trim_end_matches(set.as_slice())),
        "startswith" => Value::from(text.starts_with(first()?)),
        "endswith" => Value::from(text.ends_with(first()?)),
        "upper" => Value::from(text.to_uppercase()),
        "lower" => Value::from(text.to_lowercase()),
        "split" if arguments.is_empty() => {
            Value::from(text.split_whitespace().map(Value::from).collect::<Vec<_>>())
        }
        "split" => Value::from(text.split(first()?).map(Value::from).collect::<Vec<_>>()),
        "replace" => {
            let (from, to): (&str, &str) = from_args(arguments)?;
            Value::from(text.replace(from, to))
        }
        _ => return Err(Error::from(ErrorKind::UnknownMethod)),
    })
}
