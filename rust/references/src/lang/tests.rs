//! The expression language beside Python's and Jinja's results.

use super::*;

fn templates() -> Templates {
    let mut made = Templates::default();
    for (name, text) in [
        ("u", "memory://b"),
        ("n", "5"),
        ("f", "{{c}}"),
        ("r", "{{c(c=c)}}"),
    ] {
        made.insert(name, text, Mode::Full).unwrap();
    }
    made
}

fn full(url: &str) -> Result<String, Fault> {
    templates().url(url, Mode::Full).map(Option::unwrap)
}

#[test]
fn operators_bind_as_in_jinja() {
    for (source, result) in [
        ("{{ -2**2 }}", "4"),
        ("{{ 2**3**2 }}", "64"),
        ("{{ -1|abs }}", "1"),
        ("{{ 2 * 3 ~ 4 }}", "64"),
        ("{{ -7 // 2 }}", "-4"),
        ("{{ -7 % 3 }}", "2"),
        ("{{-7}}", "7"),
        ("{{ n|int + 1 }}", "6"),
        ("{{ n*2 }}", "55"),
    ] {
        assert_eq!(full(source).unwrap(), result, "{source}");
    }
    assert!(full("{{ 1 ~ 2 + 3 }}").is_err());
    assert!(full("{{ 1 + 2|string }}").is_err());
}

#[test]
fn floats_print_as_in_python() {
    for (source, result) in [
        ("{{ 1e16 }}", "1e+16"),
        ("{{ 1.0e-5 }}", "1e-05"),
        ("{{ 0.1 + 0.2 }}", "0.30000000000000004"),
        ("{{ 10/2 }}", "5.0"),
        ("{{ 123456789012345.0 }}", "123456789012345.0"),
        ("{{ '%g' % 0.0001 }}", "0.0001"),
        ("{{ '%e' % 12345 }}", "1.234500e+04"),
        ("{{ '{:,}'.format(1234567) }}", "1,234,567"),
        ("{{ '{:+.2f}'.format(2) }}", "+2.00"),
        ("{{ '{:<4}|{:^5}'.format('a', 'b') }}", "a   |  b  "),
    ] {
        assert_eq!(full(source).unwrap(), result, "{source}");
    }
}

#[test]
fn statements_are_rendered() {
    assert_eq!(
        full("{% for i in range(3) if i != 1 %}{{loop.index}}:{{i}},{% endfor %}").unwrap(),
        "1:0,2:2,"
    );
    assert_eq!(
        full("{% set q = 3 %}{% if q > 2 %}{{q}}{% else %}x{% endif %}").unwrap(),
        "3"
    );
    assert_eq!(
        full("a {%- raw -%} {{x}} {%- endraw %}{{n}}").unwrap(),
        "a{{x}}5"
    );
}

#[test]
fn work_without_end_is_a_limit() {
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(500), ")".repeat(500));
    for source in [
        "{{ 'a' * 1000000000 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ range(10000000000) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ 'x'.rjust(1000000000) }}",
        "{{ '{:999999999}'.format(1) }}",
        "{% for a in range(1000) %}{% for b in range(1000) %}{{ 'x' * 0 }}{% endfor %}{% endfor %}",
        "{{ r(c=r) }}",
        deep.as_str(),
    ] {
        let begun = std::time::Instant::now();
        let fault = full(source).unwrap_err();
        assert!(fault.is_limit, "{source}: {fault:?}");
        // Without a limit it would be minutes. A busy machine may need a second for what takes less than a millisecond.
        assert!(begun.elapsed().as_secs() < 5, "{source}");
    }
}

#[test]
fn nothing_beyond_the_variables_is_reached() {
    for source in [
        "{{ u.__class__ }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ u.encode() }}",
        "{{ f }}",
    ] {
        assert!(full(source).is_err(), "{source}");
    }
    assert!(templates().url("{{u.__class__}}", Mode::Simple).is_err());
}

#[test]
fn the_union_substitutes_plain_names_and_evaluates_the_rest() {
    let union = |url: &str| templates().url(url, Mode::Union).unwrap().unwrap();
    assert_eq!(union("{{u}}\n"), "memory://b\n");
    assert_eq!(union("{x}{{u}}"), "{x}memory://b");
    assert_eq!(union("{{ u }}\n"), "memory://b");
    assert_eq!(union("{{f(c='text')}}"), "text");
}
