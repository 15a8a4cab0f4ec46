//! Amounts of resources as Kubernetes writes them, as far as they have to be compared.

/// An amount in thousandths; none if the text is no amount of at least 0.
pub(super) fn parse(text: &str) -> Option<u128> {
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() || whole.len() > 18 || part.contains('.') {
        return None;
    }
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let scale = match unit {
        "m" => return (part.is_empty()).then_some(whole),
        "" => 1,
        "k" => 1000,
        "M" => 1000_u128.pow(2),
        "G" => 1000_u128.pow(3),
        "T" => 1000_u128.pow(4),
        "P" => 1000_u128.pow(5),
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "Pi" => 1 << 50,
        _ => return None,
    };
    let mut thousandths = whole.checked_mul(scale)?.checked_mul(1000)?;
    if !part.is_empty() {
        let digits = &part[..part.len().min(9)];
        let tenths = 10_u128.pow(u32::try_from(digits.len()).ok()?);
        thousandths += digits.parse::<u128>().ok()? * scale * 1000 / tenths;
    }
    Some(thousandths)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn amounts_are_read_as_kubernetes_reads_them() {
        for (text, thousandths) in [
            ("0", Some(0)),
            ("1", Some(1000)),
            ("20m", Some(20)),
            ("0.5", Some(500)),
            (".5", Some(500)),
            ("1.5Gi", Some(1_610_612_736_000)),
            ("64Mi", Some(67_108_864_000)),
            ("1k", Some(1_000_000)),
            ("", None),
            (".", None),
            ("-1", None),
            ("64MB", None),
            ("much", None),
            ("1.2.3", None),
            ("1 Gi", None),
        ] {
            assert_eq!(parse(text), thousandths, "{text:?}");
        }
    }
}
