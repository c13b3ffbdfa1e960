//! How templates list tools and write calls of them.

use std::fmt::Write as _;

use jiff::civil::Date;
use serde_json::{Value, json};

use super::python_json::{dumps, dumps_indented};
use super::thinking;
use crate::error::DataError;

const CALL_START: &str = "<tool_call>";
const CALL_END: &str = "</tool_call>";

/// A way to write tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolFormat {
    /// Plain text, `Action:` and `Action Input:`.
    Default,
    /// JSON with `parameters`, and the date.
    Llama3,
    /// JSON with `arguments` in `<tool_call>` marks.
    Qwen,
}

/// A call of a tool.
struct Call {
    name: Value,
    arguments: Value,
}

impl ToolFormat {
    /// Returns what is written behind the system prompt for `tools`, a JSON list or nothing.
    pub(super) fn describe(self, tools: &str, today: Date) -> Result<String, DataError> {
        if tools.is_empty() {
            return Ok(String::new());
        }
        let refused = || DataError::Tools {
            reason: "Invalid JSON format in tool description".into(),
        };
        let tools: Vec<Value> = serde_json::from_str(tools).map_err(|_| refused())?;
        if tools.is_empty() {
            return Ok(String::new());
        }
        match self {
            Self::Default => describe_default(&tools),
            Self::Llama3 => Ok(describe_llama3(tools, today)),
            Self::Qwen => Ok(describe_qwen(tools)),
        }
    }

    /// Returns the call (or the list of calls) in the JSON `content` as the template writes it. A thought before it, or
    /// text around a call in marks, is kept.
    pub(super) fn write_call(self, content: &str) -> Result<String, DataError> {
        let (text, json) = match marked_call(content) {
            Some((whole, json)) => (content.replace(whole, ""), json.to_owned()),
            None => match thinking::find(content) {
                Some(thought) => (thought.to_owned(), content.replace(thought, "")),
                None => (String::new(), content.to_owned()),
            },
        };
        let calls = parse_calls(&json)?;
        let written = match self {
            Self::Default => join_lines(calls, |call| {
                format!(
                    "Action: {}\nAction Input: {}",
                    plain(&call.name),
                    dumps(&call.arguments)
                )
            }),
            Self::Llama3 => {
                let mut calls: Vec<Value> = calls
                    .into_iter()
                    .map(|call| json!({"name": call.name, "parameters": call.arguments}))
                    .collect();
                dumps(&if calls.len() == 1 {
                    calls.remove(0)
                } else {
                    Value::Array(calls)
                })
            }
            Self::Qwen => join_lines(calls, |call| {
                let call = dumps(&json!({"name": call.name, "arguments": call.arguments}));
                format!("{CALL_START}\n{call}\n{CALL_END}")
            }),
        };
        Ok(text + &written)
    }
}

/// Returns the first `<tool_call>…</tool_call>` of `content`, with and without its marks.
fn marked_call(content: &str) -> Option<(&str, &str)> {
    let start = content.find(CALL_START)?;
    let inner = start + CALL_START.len();
    let length = content[inner..].find(CALL_END)?;
    Some((
        &content[start..inner + length + CALL_END.len()],
        &content[inner..inner + length],
    ))
}

fn parse_calls(json: &str) -> Result<Vec<Call>, DataError> {
    let refused = |reason: &str| DataError::Tools {
        reason: format!("Invalid JSON format in function message: {reason}"),
    };
    let calls = match serde_json::from_str(json).map_err(|_| refused("it is not JSON"))? {
        Value::Array(calls) => calls,
        call => vec![call],
    };
    calls
        .into_iter()
        .map(|mut call| {
            let mut take = |key: &str| {
                call.get_mut(key)
                    .map(Value::take)
                    .ok_or_else(|| refused(&format!("a call lacks `{key}`")))
            };
            Ok(Call {
                name: take("name")?,
                arguments: take("arguments")?,
            })
        })
        .collect()
}

fn join_lines(calls: Vec<Call>, write: impl Fn(Call) -> String) -> String {
    calls.into_iter().map(write).collect::<Vec<_>>().join("\n")
}

/// A value as Python's `str` writes it: strings without quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::String(string) => string.clone(),
        other => dumps(other),
    }
}

fn wrapped(tool: Value) -> Value {
    let is_wrapped = tool.get("type").and_then(Value::as_str) == Some("function");
    if is_wrapped {
        tool
    } else {
        json!({"type": "function", "function": tool})
    }
}

fn describe_qwen(tools: Vec<Value>) -> String {
    let mut lines = String::new();
    for tool in tools {
        lines.push('\n');
        lines.push_str(&dumps(&wrapped(tool)));
    }
    format!(
        "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n\
         You are provided with function signatures within <tools></tools> XML tags:\n<tools>{lines}\n</tools>\n\n\
         For each function call, return a json object with function name and arguments within \
         <tool_call></tool_call> XML tags:\n<tool_call>\n\
         {{\"name\": <function-name>, \"arguments\": <args-json-object>}}\n</tool_call>"
    )
}

fn describe_llama3(tools: Vec<Value>, today: Date) -> String {
    let blocks: String = tools
        .into_iter()
        .map(|tool| dumps_indented(&wrapped(tool), 4) + "\n\n")
        .collect();
    let date = today.strftime("%d %b %Y");
    format!(
        "Cutting Knowledge Date: December 2023\nToday Date: {date}\n\n\
         You have access to the following functions. To call a function, please respond with JSON for a function call. \
         Respond in the format {{\"name\": function name, \"parameters\": dictionary of argument name and its value}}. \
         Do not use variables.\n\n{blocks}"
    )
}

fn describe_default(tools: &[Value]) -> Result<String, DataError> {
    let mut text = String::from("You have access to the following tools:\n");
    let mut names = Vec::new();
    for tool in tools {
        let tool = match tool.get("type").and_then(Value::as_str) {
            Some("function") => tool.get("function").unwrap_or(tool),
            _ => tool,
        };
        let lacks_name = || DataError::Tools {
            reason: "Invalid tool description: a tool lacks `name`".into(),
        };
        let name = plain(tool.get("name").ok_or_else(lacks_name)?);
        let description = tool.get("description").map(plain).unwrap_or_default();
        let arguments = describe_arguments(&tool["parameters"]);
        let _ = writeln!(
            text,
            "> Tool Name: {name}\nTool Description: {description}\nTool Args:\n{arguments}"
        );
        names.push(name);
    }
    let _ = write!(
        text,
        "Use the following format if using a tool:\n```\nAction: tool name (one of [{}])\n\
         Action Input: the input to the tool, in a JSON format representing the kwargs \
         (e.g. ```{{\"input\": \"hello world\", \"num_beams\": 5}}```)\n```\n",
        names.join(", ")
    );
    Ok(text)
}

fn describe_arguments(parameters: &Value) -> String {
    let required: Vec<&str> = parameters["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut text = String::new();
    for (name, parameter) in parameters["properties"].as_object().into_iter().flatten() {
        let kind = parameter.get("type").map(plain).unwrap_or_default();
        let required = if required.contains(&name.as_str()) {
            ", required"
        } else {
            ""
        };
        let description = parameter.get("description").map(plain).unwrap_or_default();
        let choices = match parameter["enum"].as_array() {
            Some(choices) if !choices.is_empty() => {
                let choices: Vec<String> = choices.iter().map(plain).collect();
                format!(", should be one of [{}]", choices.join(", "))
            }
            _ => String::new(),
        };
        let items = match parameter["items"].as_object() {
            Some(items) if !items.is_empty() => {
                format!(
                    ", where each item should be {}",
                    items.get("type").map(plain).unwrap_or_default()
                )
            }
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "  - {name} ({kind}{required}): {description}{choices}{items}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_written_in_each_format() {
        let call = r#"{"name": "add", "arguments": {"a": 1.0, "b": [2]}}"#;
        assert_eq!(
            ToolFormat::Default.write_call(call).expect("a call"),
            "Action: add\nAction Input: {\"a\": 1.0, \"b\": [2]}"
        );
        assert_eq!(
            ToolFormat::Llama3
                .write_call(&format!("[{call}]"))
                .expect("a call"),
            r#"{"name": "add", "parameters": {"a": 1.0, "b": [2]}}"#
        );
        assert_eq!(
            ToolFormat::Qwen
                .write_call(&format!("<think>\nhm\n</think>\n\n{call}"))
                .expect("a call"),
            format!("<think>\nhm\n</think>\n\n<tool_call>\n{call}\n</tool_call>")
        );
        assert_eq!(
            ToolFormat::Qwen
                .write_call(&format!("Let me see. <tool_call>\n{call}\n</tool_call>"))
                .expect("a call"),
            format!("Let me see. <tool_call>\n{call}\n</tool_call>")
        );
    }

    #[test]
    fn a_broken_call_says_what_it_lacks() {
        let error = ToolFormat::Qwen
            .write_call(r#"{"name": "add"}"#)
            .expect_err("no arguments");
        assert_eq!(
            error.to_string(),
            "Invalid JSON format in function message: a call lacks `arguments`"
        );
        assert!(ToolFormat::Qwen.write_call("no json").is_err());
        assert!(
            ToolFormat::Qwen
                .describe("{", Date::constant(2026, 11, 30))
                .is_err()
        );
    }

    #[test]
    fn an_empty_list_of_tools_writes_nothing() {
        assert_eq!(
            ToolFormat::Qwen
                .describe("[]", Date::constant(2026, 11, 30))
                .expect("a list"),
            ""
        );
    }
}
