//! JSON as Python's `json.dumps(…, ensure_ascii=False)` writes it, which is what models were trained on.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Writes `value` on one line, with a blank behind `,` and `:`.
pub(super) fn dumps(value: &Value) -> String {
    let mut text = String::new();
    write_value(value, None, &mut text);
    text
}

/// Writes `value` with one element a line, `indent` blanks a level.
pub(super) fn dumps_indented(value: &Value, indent: usize) -> String {
    let mut text = String::new();
    write_value(value, Some((indent, 0)), &mut text);
    text
}

/// Where the lines of the elements begin: blanks a level, and the level.
type Layout = Option<(usize, usize)>;

fn write_value(value: &Value, layout: Layout, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => write_number(number, text),
        Value::String(string) => write_string(string, text),
        Value::Array(items) => write_elements(
            ('[', ']'),
            items.iter(),
            layout,
            text,
            |item, layout, text| {
                write_value(item, layout, text);
            },
        ),
        Value::Object(items) => write_elements(
            ('{', '}'),
            items.iter(),
            layout,
            text,
            |(key, item), layout, text| {
                write_string(key, text);
                text.push_str(": ");
                write_value(item, layout, text);
            },
        ),
    }
}

fn write_elements<T>(
    brackets: (char, char),
    items: impl ExactSizeIterator<Item = T>,
    layout: Layout,
    text: &mut String,
    write: impl Fn(T, Layout, &mut String),
) {
    let is_empty = items.len() == 0;
    let inner = layout.map(|(indent, level)| (indent, level + 1));
    text.push(brackets.0);
    for (index, item) in items.enumerate() {
        match inner {
            Some(_) if index > 0 => text.push(','),
            None if index > 0 => text.push_str(", "),
            _ => {}
        }
        break_line(inner, text);
        write(item, inner, text);
    }
    if !is_empty {
        break_line(layout, text);
    }
    text.push(brackets.1);
}

fn break_line(layout: Layout, text: &mut String) {
    if let Some((indent, level)) = layout {
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', indent * level));
    }
}

fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            control if control < ' ' => {
                let _ = write!(text, "\\u{:04x}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

fn write_number(number: &Number, text: &mut String) {
    match number.as_f64() {
        Some(float) if number.is_f64() => write_float(float, text),
        _ => {
            let _ = write!(text, "{number}");
        }
    }
}

/// Python's `repr` of a float: the shortest digits, an exponent below 1e-4 and from 1e16.
fn write_float(float: f64, text: &mut String) {
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if float != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(text, "{digits}e{sign}{:02}", exponent.unsigned_abs());
    } else {
        let _ = write!(text, "{float:?}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_line_is_spaced_as_in_python() {
        let value = json!({"a": [1, -2.5, "é\n\"\u{1}"], "b": {}, "c": [], "d": null, "e": true});
        assert_eq!(
            dumps(&value),
            r#"{"a": [1, -2.5, "é\n\"\u0001"], "b": {}, "c": [], "d": null, "e": true}"#
        );
    }

    #[test]
    fn indented_lists_have_one_element_a_line() {
        let value = json!({"a": [1, 2], "b": {}});
        assert_eq!(
            dumps_indented(&value, 4),
            "{\n    \"a\": [\n        1,\n        2\n    ],\n    \"b\": {}\n}"
        );
    }

    #[test]
    fn floats_are_written_as_in_python() {
        for (float, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123_456_789_012_345.6, "123456789012345.6"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.234e100, "1.234e+100"),
        ] {
            assert_eq!(dumps(&json!(float)), expected);
        }
    }
}
