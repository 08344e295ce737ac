//! Exact numbers from text and back, in time and memory bound by the text:
//! an exponent is carried along, never written out as digits.

use bigdecimal::num_bigint::{BigInt, Sign};
use bigdecimal::{BigDecimal, Zero};

/// The longest number that is read, in characters, and the most digits that a
/// change of scale may make. The JSON parser of Connect has the same limit.
pub(crate) const MAX_DIGITS: usize = 1000;

/// Digits that fit an `i64` whatever they are.
const SMALL_DIGITS: usize = 18;

/// Reads `[+-]digits[.digits][e[+-]digits]`; the digits before or behind the
/// point may be missing, not both.
pub(crate) fn parse(text: &str) -> Option<BigDecimal> {
    if text.len() > MAX_DIGITS {
        return None;
    }
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.as_bytes().first()? {
        b'-' => (true, &mantissa[1..]),
        b'+' => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let unscaled = parse_digits(negative, whole, fraction)?;
    let scale = i64::try_from(fraction.len()).ok()? - exponent;
    Some(BigDecimal::new(unscaled, scale))
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // Beyond 32 bits Java has no such number either.
    all_digits
        .then(|| text.parse::<i32>().ok().map(i64::from))
        .flatten()
}

fn parse_digits(negative: bool, whole: &str, fraction: &str) -> Option<BigInt> {
    let count = whole.len() + fraction.len();
    let digits = whole.bytes().chain(fraction.bytes());
    if count == 0 || !digits.clone().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if count <= SMALL_DIGITS {
        let number = digits.fold(0_i64, |sum, byte| sum * 10 + i64::from(byte - b'0'));
        return Some(BigInt::from(if negative { -number } else { number }));
    }
    let sign = if negative { "-" } else { "" };
    BigInt::parse_bytes([sign, whole, fraction].concat().as_bytes(), 10)
}

/// The same number as an integer, if it is one that fits.
pub(crate) fn to_i64(decimal: &BigDecimal) -> Option<i64> {
    let whole = rescale(decimal, 0)?;
    i64::try_from(whole.into_bigint_and_scale().0).ok()
}

/// The same number with that many digits behind the point; `None` if digits
/// would be lost, or more of them made than [`MAX_DIGITS`].
pub(crate) fn rescale(decimal: &BigDecimal, scale: i64) -> Option<BigDecimal> {
    let (unscaled, old_scale) = decimal.as_bigint_and_scale();
    if unscaled.is_zero() {
        return Some(BigDecimal::new(BigInt::zero(), scale));
    }
    let shift = scale.checked_sub(old_scale)?;
    let power = u32::try_from(shift.unsigned_abs()).ok()?;
    if power as usize > MAX_DIGITS {
        return None;
    }
    let factor = BigInt::from(10).pow(power);
    if shift >= 0 {
        return Some(BigDecimal::new(unscaled.as_ref() * factor, scale));
    }
    let quotient = unscaled.as_ref() / &factor;
    (&quotient * factor == *unscaled).then(|| BigDecimal::new(quotient, scale))
}

/// Text as Java's `BigDecimal` writes it, which is a JSON number too: plain,
/// or with an exponent where plain would be long.
pub(crate) fn to_text(decimal: &BigDecimal) -> String {
    let (unscaled, scale) = decimal.as_bigint_and_scale();
    let digits = unscaled.magnitude().to_string();
    let sign = if unscaled.sign() == Sign::Minus {
        "-"
    } else {
        ""
    };
    // The exponent if one digit stands before the point.
    let exponent = i128::from(scale).wrapping_neg() + digits.len() as i128 - 1;
    if scale >= 0 && exponent >= -6 {
        return format!("{sign}{}", with_point(&digits, scale.unsigned_abs()));
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{first}{point}{rest}E{exponent:+}")
}

fn with_point(digits: &str, scale: u64) -> String {
    let scale = usize::try_from(scale).unwrap_or(usize::MAX);
    if scale == 0 {
        return digits.to_owned();
    }
    let padded = format!("{digits:0>width$}", width = scale.saturating_add(1));
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    format!("{whole}.{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(text: &str) -> Option<String> {
        parse(text).as_ref().map(to_text)
    }

    #[test]
    fn digits_and_scale_are_kept_as_written() {
        for (text, unscaled, scale) in [
            ("0", "0", 0),
            ("-12.50", "-1250", 2),
            ("+5.", "5", 0),
            ("-.5", "-5", 1),
            ("1e3", "1", -3),
            ("1.5E-3", "15", 4),
            ("007", "7", 0),
            ("123456789012345678901.25", "12345678901234567890125", 2),
            ("-123456789012345678901", "-123456789012345678901", 0),
            ("407127e212797209", "407127", -212_797_209),
        ] {
            let (digits, found) = parse(text).unwrap().into_bigint_and_scale();
            assert_eq!(
                (digits.to_string().as_str(), found),
                (unscaled, scale),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_number_gives_none() {
        let long = "1".repeat(MAX_DIGITS + 1);
        for text in [
            "",
            "-",
            "+",
            ".",
            "-.",
            "e5",
            "1e",
            "1e+",
            "1e+-5",
            "0x1F",
            "1_000",
            "1.2.3",
            "--1",
            "1e99999999999",
            "NaN",
            "1,5",
            "١٢",
            "12e5x",
            &long,
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn text_is_what_java_writes() {
        for (text, written) in [
            ("12.50", "12.50"),
            ("0.00", "0.00"),
            ("1e3", "1E+3"),
            ("15.6e3", "1.56E+4"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1E-7"),
            ("-123e-9", "-1.23E-7"),
            ("1e+100000000", "1E+100000000"),
        ] {
            assert_eq!(text_of(text).as_deref(), Some(written), "{text}");
        }
    }

    #[test]
    fn a_scale_changes_only_without_loss_and_within_bounds() {
        let rescaled =
            |text: &str, scale| rescale(&parse(text).unwrap(), scale).map(|d| to_text(&d));
        assert_eq!(rescaled("1.5", 2).as_deref(), Some("1.50"));
        assert_eq!(rescaled("1.500", 1).as_deref(), Some("1.5"));
        assert_eq!(
            rescaled("1e20", 0).as_deref(),
            Some("100000000000000000000")
        );
        assert_eq!(rescaled("1.567", 2), None);
        assert_eq!(rescaled("1e+100000000", 0), None);
        assert_eq!(rescaled("1e-100000000", 0), None);
        assert_eq!(rescaled("0e-100000000", 0).as_deref(), Some("0"));
    }

    #[test]
    fn whole_numbers_become_integers_exactly() {
        for (text, number) in [
            ("1.0", Some(1)),
            ("1e3", Some(1000)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("1.5", None),
            ("1e999999999", None),
        ] {
            assert_eq!(to_i64(&parse(text).unwrap()), number, "{text}");
        }
    }
}
