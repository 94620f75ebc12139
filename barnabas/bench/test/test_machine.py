"""The machine in words."""

from pathlib import Path

from barnabas.bench.machine import cpu_model, device_kind, kernel_version


def test_cpu_model_is_the_first_model_name() -> None:
    """Spaces are squeezed; the second core is not repeated."""
    text = "processor\t: 0\nmodel name\t: Some  CPU @ 3 GHz\nprocessor\t: 1\nmodel name\t: Some  CPU @ 3 GHz\n"
    assert cpu_model(text) == "Some CPU @ 3 GHz"


def test_kernel_label_is_left_out() -> None:
    """Whoever built the kernel is nobody's business."""
    assert kernel_version("6.1.0-18-cloud-amd64") == "6.1.0"


def test_device_kinds(tmp_path: Path) -> None:
    """NVMe and virtual disks by name, others as the kernel says."""
    for name, rotational in (("sda", "1"), ("sdb", "0")):
        (tmp_path / name / "queue").mkdir(parents=True)
        (tmp_path / name / "queue" / "rotational").write_text(f"{rotational}\n")
    kinds = [device_kind(device, tmp_path) for device in ("nvme0n1p2", "vda1", "sda3", "sdb", "overlay")]
    assert kinds == ["NVMe", "a virtual disk", "a rotating disk", "a solid state disk", "an unknown device"]
