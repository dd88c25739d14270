from rlrepro.cli import main

main()
