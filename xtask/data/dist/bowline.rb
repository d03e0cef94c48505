class Bowline < Formula
  desc "@SUMMARY@"
  homepage "@HOMEPAGE@"
  version "@VERSION@"
  license @LICENSE@

@TARBALLS@

  def install
    bin.install "bin/bowline"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/bowline"
    fish_completion.install "share/fish/vendor_completions.d/bowline.fish"
    zsh_completion.install "share/zsh/site-functions/_bowline"
  end

  test do
    assert_equal "bowline #{version}", shell_output("#{bin}/bowline --version").strip
    system bin/"bowline", "demo", "--seconds", "1"
  end
end
