"""Writes the software bill of materials of the installed gpux, and the notices of its licences.

usage: write_sbom.py BUILD_DIR VERSION SBOM.cdx.json NOTICES.txt

The bill is CycloneDX 1.6, validated against its schema before it is written. SOURCE_DATE_EPOCH is its time, and two
runs over the same build write the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import ExpressionError, get_spdx_licensing  # type: ignore[import-untyped]
from linked_components import Component as Linked
from linked_components import ComponentError, components_of
from packageurl import PackageURL

# What each relation means for who runs gpux.
SCOPES = {"build": ComponentScope.EXCLUDED}


def package_url(linked: Linked) -> PackageURL:
    match linked.kind:
        case "debian":
            qualifiers = {"arch": linked.architecture}
            return PackageURL("deb", "debian", linked.name, linked.version, qualifiers=qualifiers)
        case "crate":
            return PackageURL("cargo", None, linked.name, linked.version)
        case "wheel":
            return PackageURL("pypi", None, linked.name, linked.version)
        case _:
            return PackageURL("generic", None, linked.name, linked.version)


def licence_of(expression: str) -> LicenseExpression | DisjunctiveLicense:
    try:
        parsed = get_spdx_licensing().parse(expression, validate=True)
    except ExpressionError as error:
        raise ComponentError(f"'{expression}' is no SPDX expression: {error}") from error
    text = str(parsed)
    return DisjunctiveLicense(id=text) if text.isidentifier() or " " not in text else LicenseExpression(text)


def component_of(linked: Linked) -> Component:
    url = package_url(linked)
    properties = [Property(name="gpux:linkage", value=linkage) for linkage in sorted(linked.linkages)]
    if linked.source and linked.source != linked.name:
        properties.append(Property(name="gpux:source-package", value=linked.source))
    references = []
    if linked.homepage:
        references.append(ExternalReference(type=ExternalReferenceType.WEBSITE, url=XsUri(linked.homepage)))
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=linked.sha256)] if linked.sha256 else []
    return Component(
        type=ComponentType.LIBRARY,
        name=linked.name,
        version=linked.version,
        bom_ref=str(url),
        purl=url,
        scope=SCOPES.get(linked.linkage, ComponentScope.REQUIRED),
        licenses=[licence_of(linked.licence)],
        properties=properties,
        external_references=references,
        hashes=hashes,
    )


def bill_of(linked: list[Linked], version: str) -> str:
    """The bill as JSON, valid by CycloneDX's schema."""
    gpux = Component(
        type=ComponentType.APPLICATION,
        name="gpux",
        version=version,
        bom_ref="gpux",
        purl=PackageURL("generic", None, "gpux", version),
        licenses=[DisjunctiveLicense(id="Apache-2.0")],
        description="Runs and serves ONNX models on the hardware of a machine",
    )
    components = [component_of(one) for one in linked]
    bom = Bom(components=components)
    bom.metadata.component = gpux
    bom.metadata.manufacturer = OrganizationalEntity(name="gpux maintainers")
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    # A random number would make each bill another.
    names = "\n".join(sorted(f"{component.bom_ref.value}" for component in components))
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"gpux {version}\n{names}")
    bom.register_dependency(gpux, [part for part in components if part.scope is not ComponentScope.EXCLUDED])
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ComponentError(f"the bill is not valid: {error}")
    return text + "\n"


def notices_of(linked: list[Linked]) -> str:
    """The licence texts of everything that is delivered, each text once."""
    names: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for one in linked:
        if one.linkage == "build":
            continue
        for file in one.notices:
            text = file.read_text(encoding="utf-8", errors="replace").strip()
            digest = hashlib.sha256(text.encode()).hexdigest()
            texts[digest] = text
            names.setdefault(digest, []).append(f"{one.name} {one.version} ({one.licence})")
    line = "-" * 80
    parts = ["gpux contains or uses the software below, under the licences that follow each list of names.\n"]
    for digest, users in names.items():
        parts.append("\n".join([line, *dict.fromkeys(users), line, "", texts[digest], ""]))
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    if len(arguments) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    build, version, bill, notices = Path(arguments[0]), arguments[1], Path(arguments[2]), Path(arguments[3])
    try:
        linked = components_of(build.resolve())
        text = bill_of(linked, version)
        bill.write_text(text)
        notices.write_text(notices_of(linked))
    except (ComponentError, OSError) as error:
        print(f"sbom: {error}", file=sys.stderr)
        return 1
    counts = {kind: sum(one.kind == kind for one in linked) for kind in dict.fromkeys(one.kind for one in linked)}
    print(f"sbom: {len(linked)} components: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
