"""The system's GSSAPI library: what is said where there is none."""

from __future__ import annotations

import pytest

from heliograph.cluster.security.gss_library import gss_library
from heliograph.model.errors import SecurityUnusable


def test_a_machine_without_the_library_is_told_which_package_has_it() -> None:
    with pytest.raises(SecurityUnusable) as refused:
        gss_library("libgssapi_of_nobody.so.2")
    assert "libgssapi_of_nobody.so.2" in refused.value.message
    assert "apt install libgssapi-krb5-2" in refused.value.hint
    assert "dnf install krb5-libs" in refused.value.hint
    assert refused.value.exit_code == 2


def test_a_library_of_that_name_without_the_functions_is_no_gssapi() -> None:
    with pytest.raises(SecurityUnusable, match="gss_import_name"):
        gss_library("libc.so.6")
